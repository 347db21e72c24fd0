//go:build !linux

package proxyclient

import "net"

// checkPeer trusts the mode of the socket: there is no one way to ask who listens there.
func checkPeer(net.Conn, string) error { return nil }
