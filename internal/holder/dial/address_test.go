package dial

import "testing"

// Lists of URLs that have a server in common are one proxy, however they are typed, since all
// servers of a list have one store.
func TestSameProxy(t *testing.T) {
	name := func(s string) string {
		a, err := parseAddress(s, "/state")
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		return a.String()
	}
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"http://a", "a/", true},
		{"http://a", "http://b", false},
		{"http://a,http://b", "http://b/,http://a", true},
		{"http://a,http://b", "b", true},
		{"http://a,http://b", "http://c,http://d", false},
		{"local", "local", true},
		{"local", "unix:///state/x", false},
		{"local", "unix:///state/local.sock", true}, // the socket that it listens on
		{"local:///x,one", "local:///x,two", false},
		{"http://ci:a,b@h:1", "http://ci:a,b@h:2", false}, // each was in both texts, cut at commas
		{"http://ci:a,b@h", "http://ci:x,b@h", false},
		{"http://ci:a,b@h,http://g", "http://g", true},
		{"unix:///s/a,b", "unix:///s/a,c", false},
		{"unix:///s//./a", "unix:////s/a", true}, // they were two
		{"unix:///s/../a", "unix:///a", false},   // s may be a link
		{"http://H:80", "http://h", true},
	} {
		if same := Same(name(tt.a), name(tt.b)); same != tt.same {
			t.Errorf("%s and %s: %v", tt.a, tt.b, same)
		}
	}
	if err := Check("http://a,unix:///s"); err == nil {
		t.Error("a socket in a list was taken")
	}
}
