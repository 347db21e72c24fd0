// Package browsertest looks at the status page of a real server in a real browser:
// chromium-headless-shell of Debian, driven by chromedp. It is a module of its own,
// so that leasectl does not depend on either. It runs the program in -leasectl:
//
//	make test-browser
//
// Every page that it opens may ask its server only, and may not break a rule of its
// Content-Security-Policy or fail in a script: each test fails otherwise.
package browsertest
