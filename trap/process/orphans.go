package process

// ReapOrphans removes the zombies of processes that this one inherited: as the
// first process of a container it becomes the parent of every process there whose
// own parent has ended, and must wait for each, since a zombie keeps its process id
// until then. The end of a process that package child or StartDetached started is
// left for them. One that other code starts, such as os/exec, would be taken for
// an orphan.
//
// It returns at once, and goes on until stop is called, which waits for its
// goroutine. In a process that inherits nobody it installs nothing: only the first
// process of a PID namespace and a subreaper (prctl(2), PR_SET_CHILD_SUBREAPER)
// inherit. Outside Linux it does nothing.
//
// While the group of a child is being stopped and its leader has ended, orphans
// stay zombies: the kernel shows the oldest zombie first, and that is the leader.
func ReapOrphans() (stop func()) { return reapOrphans() }
