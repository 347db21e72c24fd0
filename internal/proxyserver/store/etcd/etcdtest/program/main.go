// Command program is etcd, for tests on machines that have none. Package etcdtest builds it. It is
// a module of its own, so that leasectl does not depend on etcd's server.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
