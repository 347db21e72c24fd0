package proxyclient

import (
	"net"
	"os"
	"syscall"

	"github.com/leasectl/leasectl/internal/own"
)

// checkPeer refuses a server on the socket at path that is another user's, who could have put the socket there.
// It asks the kernel, since the socket may be another one by now.
func checkPeer(conn net.Conn, path string) error {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return err
	}
	var peer *syscall.Ucred
	if failed := raw.Control(func(fd uintptr) {
		peer, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); failed != nil {
		return failed
	}
	if err != nil {
		return os.NewSyscallError("getsockopt", err)
	}
	return own.Peer(path, int(peer.Uid))
}
