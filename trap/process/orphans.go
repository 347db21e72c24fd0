package process

// ReapOrphans removes the zombies of processes that this one inherited. The first process of a
// container becomes the parent of every process there whose own parent has ended, and must wait
// for each, since a zombie keeps its process id until then. Processes that package child or
// StartDetached started are left to them. A process that other code starts, such as os/exec,
// would be taken for an orphan.
//
// ReapOrphans returns at once. Its goroutine works until stop is called, which waits for it.
// Only the first process of a PID namespace and a subreaper (prctl(2), PR_SET_CHILD_SUBREAPER)
// inherit orphans: in other processes, and outside Linux, ReapOrphans does nothing.
//
// While the group of a child is being stopped and its leader has ended, orphans stay zombies:
// the kernel shows the oldest zombie first, and that is the leader.
func ReapOrphans() (stop func()) { return reapOrphans() }
