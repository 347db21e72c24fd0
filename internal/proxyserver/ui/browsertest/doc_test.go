// Package browsertest looks at the status page of a real server in a real browser:
// chromium-headless-shell of Debian, driven by chromedp. It is a module of its own,
// so that leasectl does not depend on either. It runs the program in -leasectl:
//
//	make test-browser
//
// Every page that it opens may ask only its own server, and must not break its
// Content-Security-Policy or fail in a script. Otherwise the test fails.
package browsertest
