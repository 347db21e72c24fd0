package ui

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/leasectl/leasectl/internal/pool"
)

// link returns the URL that text is; false if text is no URL of http or https.
func link(text string) (string, bool) {
	if !strings.HasPrefix(text, "https://") && !strings.HasPrefix(text, "http://") {
		return "", false // browsers take more texts for a URL than net/url does
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "", false
	}
	return u.String(), true
}

// job returns text as the URL of a job, without query and fragment, and the query; false if
// text is no URL.
func job(text string) (job string, asked url.Values, ok bool) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "", nil, false
	}
	asked = u.Query()
	u.RawQuery, u.Fragment = "", ""
	return strings.TrimSuffix(u.String(), "/"), asked, true
}

// local parses the path of a page, with its query. If path is no page of this server, local
// returns the first page.
func local(path string) *url.URL {
	u, err := url.Parse(path)
	if err != nil || u.Scheme != "" || u.Host != "" || !IsPage(u.Path) || strings.Contains(path, `\`) || strings.HasPrefix(path, "//") {
		return &url.URL{Path: "/"}
	}
	return u
}

// localPath returns path if it is a page of this server, else the path of the first page.
func localPath(path string) string { return local(path).RequestURI() }

// PathLive is the path of the changes of a page. The answer lasts as long as a browser shows that.
const PathLive = "/ui/live"

// IsPage reports whether path belongs to the status page.
func IsPage(path string) bool { return path == "/" || strings.HasPrefix(path, "/ui/") }

// poolPath returns the path of the page of a pool.
func poolPath(typ string) string {
	if typ == "." || typ == ".." { // a browser removes these from a path
		return "/ui/pools/?type=" + typ
	}
	return "/ui/pools/" + url.PathEscape(typ)
}

// RequestPath returns the path of the page of a request, by its id. If that is bound to a caller, the
// path names the caller, too; without, it leads to the request of that id if there is only one.
func RequestPath(id string) string {
	return query("/ui/requests/"+url.PathEscape(pool.PlainID(id)), "caller", pool.CallerOf(id))
}

// livePath returns the path of the changes of the page at path.
func livePath(path string) string { return query(PathLive, "of", path) }

// query returns path with a query of names and values by turns; an empty value is left out.
func query(path string, pairs ...any) string {
	q := make(url.Values)
	for i := 0; i < len(pairs); i += 2 {
		if value := fmt.Sprint(pairs[i+1]); value != "" {
			q.Set(fmt.Sprint(pairs[i]), value)
		}
	}
	switch {
	case len(q) == 0:
		return path
	case strings.Contains(path, "?"):
		return path + "&" + q.Encode()
	}
	return path + "?" + q.Encode()
}

// number returns n as text for query, and "" for zero, which query leaves out.
func number[N int | uint64](n N) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
