package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// restrictedBy names the file with the system calls that this process keeps before it becomes
// another program, which is what its arguments say. nobody is the user that it becomes.
const restrictedBy, nobody = "TEST_SYSTEM_CALLS", 65534

// restrictThenExec does what systemd does for a unit with User=, NoNewPrivileges=,
// MemoryDenyWriteExecute=, RestrictAddressFamilies= (AF_UNIX, AF_INET, AF_INET6) and
// SystemCallFilter=. It returns if this process is not meant.
func restrictThenExec() {
	path, ok := os.LookupEnv(restrictedBy)
	if !ok {
		return
	}
	err := restrict(path)
	if err == nil {
		err = syscall.Exec(os.Args[1], os.Args[1:], []string{"PATH=" + os.Getenv("PATH")})
	}
	fmt.Fprintln(os.Stderr, "restrict:", err)
	os.Exit(125)
}

func restrict(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var numbers []uint32
	for _, word := range strings.Fields(string(text)) {
		n, err := strconv.ParseUint(word, 10, 32)
		if err != nil {
			return err
		}
		numbers = append(numbers, uint32(n))
	}
	runtime.LockOSThread() // whose filter the next program has
	if os.Getuid() == 0 {
		for _, err := range []error{syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)} {
			if err != nil {
				return err
			}
		}
	}
	// Constants of prctl(2): PR_SET_NO_NEW_PRIVS, PR_SET_MDWE with PR_MDWE_REFUSE_EXEC_GAIN, which
	// only Linux 6.3 has, and PR_SET_SECCOMP with SECCOMP_MODE_FILTER.
	if _, _, e := syscall.RawSyscall(syscall.SYS_PRCTL, 38, 1, 0); e != 0 {
		return fmt.Errorf("no new privileges: %w", e)
	}
	syscall.RawSyscall(syscall.SYS_PRCTL, 65, 1, 0)
	filter := callFilter(numbers)
	program := syscall.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, e := syscall.RawSyscall(syscall.SYS_PRCTL, 22, 2, uintptr(unsafe.Pointer(&program))); e != 0 {
		return fmt.Errorf("filter of system calls: %w", e)
	}
	return nil
}

// callFilter is a program of seccomp(2) that allows calls with these numbers, and sockets of
// three families. All else fails with EPERM, as in the unit.
func callFilter(numbers []uint32) (f []syscall.SockFilter) {
	const (
		load     = syscall.BPF_LD | syscall.BPF_W | syscall.BPF_ABS
		equal    = syscall.BPF_JMP | syscall.BPF_JEQ | syscall.BPF_K
		give     = syscall.BPF_RET | syscall.BPF_K
		allow    = 0x7fff0000 // SECCOMP_RET_ALLOW
		fail     = 0x00050000 // SECCOMP_RET_ERRNO
		number   = 0          // where struct seccomp_data has it
		argument = 16
	)
	f = append(f, syscall.SockFilter{Code: load, K: number})
	f = append(f, syscall.SockFilter{Code: equal, Jf: 6, K: syscall.SYS_SOCKET}, syscall.SockFilter{Code: load, K: argument})
	for i, family := range []uint32{syscall.AF_UNIX, syscall.AF_INET, syscall.AF_INET6} {
		f = append(f, syscall.SockFilter{Code: equal, Jt: uint8(3 - i), K: family})
	}
	f = append(f, syscall.SockFilter{Code: give, K: fail | uint32(syscall.EAFNOSUPPORT)}, syscall.SockFilter{Code: load, K: number})
	for _, n := range numbers {
		f = append(f, syscall.SockFilter{Code: equal, Jf: 1, K: n}, syscall.SockFilter{Code: give, K: allow})
	}
	return append(f, syscall.SockFilter{Code: give, K: fail | uint32(syscall.EPERM)})
}

// systemCalls writes the numbers of the calls that lists of SystemCallFilter= leave to a
// program, and returns the path: what the first allows without what the second, which begins
// with ~, takes away.
func systemCalls(t *testing.T, lists []string) string {
	t.Helper()
	numbers := callNumbers(t)
	kept := make(map[string]bool)
	for _, list := range lists {
		list, taken := strings.CutPrefix(list, "~")
		for _, set := range strings.Fields(list) {
			for _, name := range callsOf(t, set) {
				kept[name] = !taken
			}
		}
	}
	var text []string
	for name, keep := range kept {
		if n, ok := numbers[name]; keep && ok {
			text = append(text, n)
		}
	}
	if len(text) < 100 {
		t.Fatalf("only %d system calls have a number", len(text))
	}
	slices.Sort(text)
	return write(t, filepath.Join(t.TempDir(), "calls"), strings.Join(text, "\n"))
}

// callsOf are the names of the calls of a set of systemd, and of the sets in it.
func callsOf(t *testing.T, set string) (names []string) {
	t.Helper()
	out, err := exec.Command("systemd-analyze", "--no-pager", "syscall-filter", set).Output()
	if err != nil {
		t.Fatal(set, err)
	}
	for line := range strings.Lines(string(out)) {
		name := strings.TrimSpace(line)
		switch {
		case name == set || name == "" || strings.HasPrefix(name, "#"):
		case strings.HasPrefix(name, "@"):
			names = append(names, callsOf(t, name)...)
		default:
			names = append(names, name)
		}
	}
	return names
}

// callNumbers are the numbers of system calls on this machine, from the headers of the kernel.
func callNumbers(t *testing.T) map[string]string {
	t.Helper()
	cmd := exec.Command("cc", "-E", "-dM", "-x", "c", "-")
	cmd.Stdin = strings.NewReader("#include <asm/unistd.h>\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal("cc:", err)
	}
	numbers := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^#define __NR_(\w+) (\d+)$`).FindAllStringSubmatch(string(out), -1) {
		numbers[m[1]] = m[2]
	}
	return numbers
}
