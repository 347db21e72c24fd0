package browsertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Somebody who looks at a pool sees a job queue, get its lease, and lose it to an
// operator, without a reload.
func TestQueueGrantBreakAreLive(t *testing.T) {
	s := serve(t, "install=1")
	first := s.acquire("install", "first", "https://ci.example/job/1")
	w := open(t, s, 1100).signIn(readToken)
	w.visit("/ui/pools/install")
	w.shows("#live", "Live")
	w.shows("#held", "https://ci.example/job/1")
	eval[int](w, `window.loaded = 1`)
	told := s.queue("install", "second", "https://ci.example/job/2")
	w.shows("#queue", "https://ci.example/job/2")
	if text := w.text("#queue"); !strings.Contains(text, "full") {
		t.Errorf("the queue does not say why it waits: %s", text)
	}
	s.release(first)
	w.shows("#held", "https://ci.example/job/2")
	w.shows("#queue", "Nobody waits")
	if got := <-told; !strings.HasPrefix(got, "200") {
		t.Errorf("the job was told %s", got)
	}

	ops := open(t, s, 1100).signIn(adminToken)
	ops.visit("/ui/pools/install")
	ops.click("Break…")
	ops.run(chromedp.WaitVisible(`input[name=reason]`), chromedp.SendKeys(`input[name=reason]`, "the account is on fire"))
	ops.click("Break")
	ops.shows("#held", "the account is on fire")
	w.shows("#held", "broken: the account is on fire")
	if eval[int](w, `window.loaded ?? 0`) != 1 {
		t.Error("the page was loaded anew")
	}
	ops.visit("/ui/requests/second")
	ops.shows("#request", "It has its lease")
	ops.visit("/ui/events?what=breaking")
	ops.shows("#events", "the account is on fire")
}

// A browser without a session is asked for a token, keeps a cookie that scripts do
// not see, and may do what its token may.
func TestSignIn(t *testing.T) {
	s := serve(t, "install=1")
	s.acquire("install", "first", "job")
	w := open(t, s, 1100)
	w.visit("/ui/pools/install")
	w.run(chromedp.WaitVisible(`input[name=token]`), chromedp.SendKeys(`input[name=token]`, "wrong-token-0123456789\r"))
	w.shows("main", "does not know this token")
	w.run(chromedp.SendKeys(`input[name=token]`, readToken+"\r"))
	w.shows("h1", "install")
	if cookie := eval[string](w, `document.cookie`); cookie != "" {
		t.Errorf("scripts see the cookie %s", cookie)
	}
	if text := w.text("main"); strings.Contains(text, "Pause…") || strings.Contains(text, "Break…") {
		t.Errorf("a token that is marked read is offered\n%s", text)
	}
	for _, path := range []string{"/ui/pause?type=install", "/ui/break?name=install-0&generation=1"} {
		w.visit(path)
		w.shows("main", "marked admin")
	}
	status := eval[int](w, `(() => { const r = new XMLHttpRequest(); r.open("POST", "/ui/pause", false); r.send("type=install&reason=x"); return r.status; })()`)
	if status != 403 {
		t.Errorf("a token that is marked read pauses: %d", status)
	}
	w.click("board")
	w.click("Sign out")
	w.run(chromedp.WaitVisible(`input[name=token]`))
	w.visit("/")
	w.run(chromedp.WaitVisible(`input[name=token]`))
	admin := open(t, s, 1100).signIn(adminToken)
	admin.visit("/ui/pools/install")
	admin.shows("main", "Pause…")
}

// An operator pauses a pool, removes a waiter, and resumes it; the waiter reads the
// reason.
func TestPauseRemoveResume(t *testing.T) {
	s := serve(t, "install=1")
	w := open(t, s, 1100).signIn(adminToken)
	w.visit("/ui/pools/install")
	w.click("Pause…")
	w.run(chromedp.WaitVisible(`input[name=reason]`))
	w.click("Pause") // without a reason the browser does not send it
	w.run(chromedp.SendKeys(`input[name=reason]`, "quota is being raised"))
	w.click("Pause")
	w.shows("#state", "quota is being raised")
	told := s.queue("install", "late", "somebody")
	w.shows("#queue", "paused: quota is being raised")
	w.click("Remove…")
	w.run(chromedp.WaitVisible(`input[name=reason]`), chromedp.SendKeys(`input[name=reason]`, "come back tomorrow"))
	w.click("Remove")
	w.shows("#request", "come back tomorrow")
	if got := <-told; !strings.Contains(got, "come back tomorrow") {
		t.Errorf("the job was told %s", got)
	}
	w.visit("/ui/pools/install")
	w.click("Resume…")
	w.run(chromedp.WaitVisible(`input[name=reason]`), chromedp.SendKeys(`input[name=reason]`, "done"))
	w.click("Resume")
	w.shows("#state", "free")
	s.acquire("install", "next", "somebody")
	w.shows("#held", "somebody")
}

// An operator moves a waiter ahead of another; its page and the queue say so.
func TestMove(t *testing.T) {
	s := serve(t, "install=1")
	s.acquire("install", "holder", "somebody")
	w := open(t, s, 1100).signIn(adminToken)
	s.queue("install", "first", "early")
	w.visit("/ui/pools/install")
	w.shows("#queue", "early")
	s.queue("install", "second", "late")
	w.shows("#queue", "late")
	w.visit("/ui/requests/second")
	w.shows("#request", "place 2 of 2")
	w.click("Move…")
	w.run(chromedp.WaitVisible(`input[name=priority]`), chromedp.SetValue(`input[name=priority]`, "101"),
		chromedp.SendKeys(`input[name=reason]`, "the release waits for it"))
	w.click("Move") // beyond the bound the browser does not send it
	w.run(chromedp.SetValue(`input[name=priority]`, "20"))
	w.click("Move")
	w.shows("#request", "place 1 of 2")
	w.shows("#request", "priority 20")
	w.visit("/ui/pools/install")
	w.shows("#queue", "behind 1 of higher priority")
}

// An operator takes a name out of its pool and gives it back; who wants it is told who has it, and why.
func TestReserve(t *testing.T) {
	s := serve(t, "aws=2")
	w := open(t, s, 1100).signIn(adminToken)
	w.visit("/ui/pools/aws")
	w.click("Reserve…")
	w.run(chromedp.WaitVisible(`input[name=name]`), chromedp.SendKeys(`input[name=name]`, "aws-7"), chromedp.SendKeys(`input[name=for]`, "2h"))
	w.click("Reserve") // without a reason the browser does not send it
	w.run(chromedp.SendKeys(`input[name=reason]`, "disk is replaced"))
	w.click("Reserve")
	w.shows("main", "It was not done")
	w.run(chromedp.SetValue(`input[name=name]`, "aws-1"))
	w.click("Reserve")
	w.shows("#reserved", "disk is replaced")
	w.shows("#reserved", "oncall")
	w.shows("#state", "1 reserved")
	told := s.queue("aws", "late", "somebody", "name=aws-1")
	w.shows("#queue", "wants aws-1, reserved by oncall token oncall: disk is replaced")
	s.acquire("aws", "other", "another")
	w.shows("#held", "aws-0")
	w.keep("reserved")
	w.click("Give back…")
	w.run(chromedp.WaitVisible(`input[name=reason]`), chromedp.SendKeys(`input[name=reason]`, "it works"))
	w.click("Give back")
	w.shows("#held", "aws-1")
	w.hides("#reserved", "disk is replaced")
	if got := <-told; !strings.Contains(got, "aws-1") {
		t.Errorf("the job was told %s", got)
	}
	w.visit("/ui/events")
	w.shows("main", "given back")
}

// A job that needs leases of two pools stands in the queue of both, each of which says why it waits.
func TestWaitsForTwoPools(t *testing.T) {
	s := serve(t, "install=2", "db=1")
	held := s.acquire("db", "first", "holder")
	told := s.queue("install", "both", "https://ci.example/job/2", "also=db")
	w := open(t, s, 1100).signIn(adminToken)
	w.visit("/ui/pools/db")
	w.shows("#queue", "full")
	w.visit("/ui/pools/install")
	w.shows("#queue", "waits for db too: full")
	ops := open(t, s, 1100).signIn(adminToken)
	ops.visit("/ui/pools/db")
	ops.click("Pause…")
	ops.run(chromedp.WaitVisible(`input[name=reason]`), chromedp.SendKeys(`input[name=reason]`, "repair"))
	ops.click("Pause")
	ops.shows("#state", "repair")
	w.shows("#queue", "waits for db too: paused: repair")
	ops.click("Resume…")
	ops.run(chromedp.WaitVisible(`input[name=reason]`), chromedp.SendKeys(`input[name=reason]`, "repaired"))
	ops.click("Resume")
	w.shows("#queue", "waits for db too: full")
	s.release(held)
	w.shows("#held", "https://ci.example/job/2")
	if got := <-told; !strings.Contains(got, "install-0") || !strings.Contains(got, "db-0") {
		t.Errorf("the job was told %s", got)
	}
}

// An owner with markup is text, also in live updates.
func TestHostileOwner(t *testing.T) {
	const owner = `"><script>document.title='owned'</script><img src=x onerror="document.title='owned'">`
	s := serve(t, "install=2")
	s.acquire("install", "first", owner)
	w := open(t, s, 1100).signIn(adminToken)
	w.visit("/ui/pools/install")
	w.shows("#live", "Live")
	w.shows("#held", owner)
	s.acquire("install", "second", "javascript:document.title='owned'")
	s.queue("install", "third", owner)
	w.shows("#held", "javascript:document.title='owned'")
	w.shows("#queue", owner)
	for _, path := range []string{"/ui/events", "/ui/find?q=owned", "/ui/requests/third"} {
		w.visit(path)
		w.shows("main", "owned")
		if eval[int](w, `document.querySelectorAll("main img, main script, a[href^='javascript:']").length`) != 0 || strings.Contains(eval[string](w, `document.title`), "owned") {
			t.Errorf("%s: an owner is more than text", path)
		}
	}
}

// Everything can be reached and done with the keyboard, and shows where the focus
// is. A live update does not take the focus away.
func TestKeyboardOnly(t *testing.T) {
	s := serve(t, "install=1")
	w := open(t, s, 1100)
	w.visit("/")
	w.run(chromedp.WaitVisible(`input[name=token]:focus`), chromedp.KeyEvent(adminToken), chromedp.KeyEvent(kb.Enter))
	w.shows("h1", "Pools")
	focus := func() string {
		return eval[string](w, `document.activeElement.innerText || document.activeElement.name || ""`)
	}
	tabTo := func(text string) {
		t.Helper()
		for range 40 {
			w.run(chromedp.KeyEvent(kb.Tab))
			if got := focus(); strings.HasPrefix(got, text) {
				if outline := eval[string](w, `getComputedStyle(document.activeElement).outlineStyle`); outline == "none" {
					t.Errorf("nothing shows that %q has the focus", text)
				}
				return
			}
		}
		t.Fatalf("Tab does not reach %q", text)
	}
	tabTo("Skip to the content")
	tabTo("install")
	w.run(chromedp.KeyEvent(kb.Enter))
	w.shows("h1", "install")
	w.shows("#live", "Live")
	tabTo("Pause…")
	s.acquire("install", "first", "job")
	w.shows("#state", "full")
	if got := focus(); got != "Pause…" {
		t.Errorf("after a change %q has the focus", got)
	}
	w.run(chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(`input[name=reason]:focus`), chromedp.KeyEvent("by keyboard"), chromedp.KeyEvent(kb.Enter))
	w.shows("#state", "by keyboard")
}

// Nothing is wider than a screen of 320 pixels, in light and in dark; every field
// has a label, and every page one heading.
func TestNarrowDarkAndLight(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config")
	pools := `resources:
- {type: install, names: [install-0, install-1]}
- {type: a-pool-with-a-long-name-as-they-are, names: [a-0, a-1, a-2]}
- {type: adapts, names: [adapts-0, adapts-1], adapt: {}}
- {type: mem, units: 8192, unit: 1Mi}
`
	if err := os.WriteFile(config, []byte(pools), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serveWith(t, "--config", config)
	long := "https://prow.example.com/view/gs/test-platform-results/logs/periodic-ci-openshift-release-master-nightly-4.22-e2e-aws-upgrade/1990000000000000001"
	s.acquire("install", "first", long)
	s.acquire("install", "second", "user@host")
	s.queue("install", "third", long)
	s.queue("install", "fourth", strings.Repeat("x", 400))
	s.acquire("adapts", "throttled", long)
	for _, id := range []string{"first", "throttled"} {
		if status, text := s.call("/lease/report", fmt.Sprintf(`{"request_id":%q,"outcome":"throttled","detail":%q}`, id, strings.Repeat("x", 200))); status != 200 {
			t.Fatalf("report: %d %s", status, text)
		}
	}
	if status, text := s.callAs(adminToken, "/lease/reserve", fmt.Sprintf(`{"name":"install-1","owner":%q,"for":"2h","reason":%q}`, long, strings.Repeat("x", 200))); status != 200 {
		t.Fatalf("reserve: %d %s", status, text)
	}
	used := s.acquire("mem", "used", long)
	if status, text := s.call("/lease/release", fmt.Sprintf(`{"leases":[{"name":%q,"generation":%d}],"peak":{"bytes":123456789,"source":"cgroup"}}`, used.Name, used.Generation)); status != 200 {
		t.Fatalf("release: %d %s", status, text)
	}
	for _, width := range []int64{320, 1100} {
		w := open(t, s, width).signIn(adminToken)
		for _, scheme := range []string{"light", "dark"} {
			w.scheme(scheme)
			for name, path := range map[string]string{
				"pools": "/", "pool": "/ui/pools/install", "limit": "/ui/pools/adapts", "peaks": "/ui/pools/mem", "request": "/ui/requests/third", "events": "/ui/events", "find": "/ui/find?q=prow", "break": "/ui/break?name=install-0&generation=1", "reserve": "/ui/reserve?type=install", "login": "/ui/login",
			} {
				w.visit(path)
				w.run(chromedp.WaitVisible("main"))
				if name == "pool" {
					w.shows("#queue", "xxx")
					w.shows("#limit", "Throttled")
				}
				if name == "limit" {
					w.shows("#limit", "from 2 to 1")
				}
				if name == "peaks" {
					w.shows("#peaks", "118")
				}
				if got := eval[int64](w, `document.scrollingElement.scrollWidth`); got > width {
					t.Errorf("%s is %d wide on a screen of %d", path, got, width)
				}
				if n := eval[int](w, `document.querySelectorAll("h1").length`); n != 1 {
					t.Errorf("%s has %d headings", path, n)
				}
				if n := eval[int](w, `[...document.querySelectorAll("input:not([type=hidden]), select")].filter(e => !e.labels.length).length`); n != 0 {
					t.Errorf("%s: %d fields without a label", path, n)
				}
				if faint := eval[string](w, contrast); faint != "" {
					t.Errorf("%s in %s: hard to read: %s", path, scheme, faint)
				}
				w.keep(fmt.Sprintf("%s-%s-%d", name, scheme, width))
			}
		}
	}
}

// contrast returns the texts whose contrast with their background is below 4.5, as
// WCAG 2 measures it; a color that is mixed is left out.
const contrast = `(() => {
  const rgb = (c) => (c.match(/^rgba?\(([^)]*)\)$/) || [])[1]?.split(",").map(Number);
  const light = (c) => {
    const [r, g, b] = c.slice(0, 3).map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const faint = [];
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility() || e.closest("svg, option, .hidden, .skip")) continue;
    let behind = e;
    while (behind && !(rgb(getComputedStyle(behind).backgroundColor)?.[3] !== 0)) behind = behind.parentElement;
    const text = rgb(getComputedStyle(e).color), back = behind && rgb(getComputedStyle(behind).backgroundColor);
    if (!text || !back) continue;
    const [a, b] = [light(text), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) faint.push(e.innerText + " " + ratio.toFixed(1));
  }
  return faint.join("; ");
})()`

// The page is whole without JavaScript.
func TestWithoutJavaScript(t *testing.T) {
	s := serve(t, "install=1")
	first := s.acquire("install", "first", "job one")
	s.queue("install", "second", "job two")
	w := open(t, s, 1100)
	// What the test itself evaluates still runs.
	call(w, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	w.signIn(adminToken)
	w.visit("/")
	w.run(chromedp.SendKeys(`#q`, "job two\r"))
	w.shows("#found", "waits at place 1")
	w.click("waits at place 1")
	w.shows("#request", "at place 1 of 1")
	w.click("install")
	w.shows("#held", "job one")
	s.release(first)
	w.await("the lease", func() bool {
		w.run(chromedp.Reload())
		return strings.Contains(w.text("#held"), "job two")
	})
	w.click("Break…")
	w.run(chromedp.WaitVisible(`input[name=reason]`), chromedp.SendKeys(`input[name=reason]`, "without a script"), chromedp.Click(`input[name=now]`))
	w.click("Break")
	w.shows("#held", "Nothing is held")
}
