package proxyclient

import "testing"

// The page of a request is on the server that answered; a browser reaches none on a
// socket, and nothing that the server says leads elsewhere.
func TestPageURL(t *testing.T) {
	for _, tt := range []struct{ proxy, path, want string }{
		{"https://leases.test:8370/prefix/", "/ui/requests/r", "https://leases.test:8370/prefix/ui/requests/r"},
		{"http://user:secret@leases.test", "/ui/requests/r", "http://leases.test/ui/requests/r"},
		{"http://leases.test", "", ""},
		{"http://leases.test", "@evil.test/", ""},
		{"http://leases.test", ":80@evil.test/", ""},
		{"http://leases.test", "//evil.test", "http://leases.test//evil.test"},
		{"unix:///run/leases", "/ui/requests/r", ""},
	} {
		c, err := New(Options{URL: tt.proxy})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.pageURL(tt.path); got != tt.want {
			t.Errorf("%s at %s: %q, want %q", tt.path, tt.proxy, got, tt.want)
		}
	}
}
