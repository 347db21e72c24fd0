package browsertest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var (
	program   = flag.String("leasectl", "", "the program to test")
	artefacts = flag.String("artefacts", "", "folder for screenshots; empty: they are not kept")
)

// browser is shared by all tests; each test has windows of its own.
var browser context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if *program == "" {
		fmt.Fprintln(os.Stderr, "browsertest: -leasectl names the program to test: use make test-browser")
		return 1
	}
	chromium, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		fmt.Fprintln(os.Stderr, "browsertest: install the package chromium-headless-shell:", err)
		return 1
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	defer cancel()
	var stop func()
	browser, stop = chromedp.NewContext(allocator)
	defer stop()
	if err := chromedp.Do(browser); err != nil {
		fmt.Fprintln(os.Stderr, "browsertest: start the browser:", err)
		return 1
	}
	return m.Run()
}

// window is a window of the browser, with cookies of its own.
type window struct {
	t      *testing.T
	ctx    context.Context
	server *server

	mu     sync.Mutex
	asked  []string // every URL that a page asked for
	faults []string // scripts that failed, rules that were broken, dialogs
}

// open opens a window as wide as width.
func open(t *testing.T, s *server, width int64) *window {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	w := &window{t: t, ctx: ctx, server: s}
	if err := chromedp.Listen(ctx, w.hear); err != nil {
		t.Fatal(err)
	}
	call(w, network.Enable, network.EnableParams{})
	call(w, log.Enable, cdp.Empty{})
	w.run(chromedp.EmulateViewport(width, 900))
	t.Cleanup(func() {
		cancel()
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, url := range w.asked {
			if !strings.HasPrefix(url, s.url+"/") && url != "about:blank" {
				t.Errorf("a page asked another host: %s", url)
			}
		}
		if len(w.asked) == 0 {
			t.Error("nothing was asked: the test does not see what pages ask")
		}
		for _, fault := range w.faults {
			t.Errorf("in the browser: %s", fault)
		}
	})
	return w
}

func (w *window) hear(event any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		w.asked = append(w.asked, e.Request.URL)
	case *runtime.EventExceptionThrown:
		w.faults = append(w.faults, e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError && !strings.Contains(e.Entry.Text, "the server responded with a status of 4") {
			w.faults = append(w.faults, e.Entry.Text+" "+e.Entry.URL)
		}
	case *page.EventJavascriptDialogOpening:
		w.faults = append(w.faults, "a dialog: "+e.Message)
	}
}

func (w *window) run(actions ...chromedp.Action[chromedp.Void]) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		w.t.Fatalf("%v\n%s", err, w.server.log)
	}
}

// get runs an action and returns its value.
func get[T any](w *window, action chromedp.Action[T]) T {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		w.t.Fatalf("%v\n%s", err, w.server.log)
	}
	return v
}

// call sends a command of the protocol.
func call[P, R any](w *window, command cdp.Command[P, R], params P) {
	w.t.Helper()
	if _, err := chromedp.Call(w.ctx, command, params); err != nil {
		w.t.Fatal(err)
	}
}

// visit goes to a page.
func (w *window) visit(path string) {
	w.t.Helper()
	w.run(chromedp.Navigate(w.server.url + path))
}

// signIn begins a session.
func (w *window) signIn(token string) *window {
	w.t.Helper()
	w.visit("/")
	w.run(chromedp.WaitVisible(`input[name=token]`), chromedp.SendKeys(`input[name=token]`, token+"\r"), chromedp.WaitVisible(`#pools`))
	return w
}

// eval returns the value of a script, which must only look. If the page is left before the
// script ends, eval runs it again in the next page.
func eval[T any](w *window, script string) T {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	for {
		v, err := chromedp.Run(ctx, chromedp.Evaluate[T](script))
		switch {
		case err == nil:
			return v
		case ctx.Err() != nil || !strings.Contains(err.Error(), "navigated") && !strings.Contains(err.Error(), "context"):
			w.t.Fatalf("%v\n%s", err, w.server.log)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// text returns the visible text of an element.
func (w *window) text(selector string) string {
	w.t.Helper()
	return eval[string](w, fmt.Sprintf(`document.querySelector(%q)?.innerText ?? ""`, selector))
}

// shows waits until an element shows a text.
func (w *window) shows(selector, want string) {
	w.t.Helper()
	w.await(fmt.Sprintf("%s to show %q", selector, want), func() bool { return strings.Contains(w.text(selector), want) })
}

// hides waits until an element does not show a text.
func (w *window) hides(selector, text string) {
	w.t.Helper()
	w.await(fmt.Sprintf("%s to show %q no more", selector, text), func() bool { return !strings.Contains(w.text(selector), text) })
}

func (w *window) await(what string, so func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("waited in vain for %s; the page is\n%s", what, w.text("main"))
		}
	}
}

// click clicks a link or a button by its text. A live update may replace the element before the
// click: then click tries the new one.
func (w *window) click(text string) {
	w.t.Helper()
	path := fmt.Sprintf(`//a[starts-with(normalize-space(.), %q)] | //button[normalize-space(.)=%q]`, text, text)
	w.await("a click on "+text, func() bool {
		ctx, cancel := context.WithTimeout(w.ctx, patience)
		defer cancel()
		return chromedp.Do(ctx, chromedp.Click(path)) == nil
	})
}

// keep keeps a picture of the whole page.
func (w *window) keep(name string) {
	w.t.Helper()
	if *artefacts == "" {
		return
	}
	png := get(w, chromedp.FullScreenshot(100))
	if err := os.MkdirAll(*artefacts, 0o777); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*artefacts, name+".png"), png, 0o666); err != nil {
		w.t.Fatal(err)
	}
}

// scheme makes the window prefer light or dark.
func (w *window) scheme(prefers string) {
	w.t.Helper()
	call(w, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: prefers}}})
}
