package auth

import (
	"log/slog"
	"net/http"
)

// OpenThrough is [Open] with another way to the issuers than the network.
func OpenThrough(transport http.RoundTripper, c Config, log *slog.Logger) *Gate {
	g := Open(nil, log)
	g.transport = transport
	g.Set(&c)
	return g
}
