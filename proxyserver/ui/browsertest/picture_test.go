package browsertest

import (
	"flag"
	"os"
	"testing"

	"github.com/chromedp/chromedp"
)

var (
	picture     = flag.String("picture", "", "file for a picture of a page of a server that runs")
	pictureOf   = flag.String("picture-of", "", "URL of the server for -picture, without a slash at its end")
	picturePath = flag.String("picture-path", "/", "path of the page for -picture")
	pictureSign = flag.String("picture-token", "", "token to sign in with for -picture")
)

// TestPicture takes docs/status-page.png. It is of a server that has run for a while,
// so that the charts have something to show: scripts/demo.sh is over too soon.
func TestPicture(t *testing.T) {
	if *picture == "" {
		t.Skip("-picture names no file")
	}
	w := open(t, &server{t: t, url: *pictureOf, log: new(logText)}, 1120)
	w.signIn(*pictureSign)
	w.visit(*picturePath)
	w.shows("#live", "Live")
	w.run(chromedp.EmulateViewport(1120, 900))
	if err := os.WriteFile(*picture, get(w, chromedp.CaptureScreenshot()), 0o666); err != nil {
		t.Fatal(err)
	}
}
