package child

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// The peak of a command that shares its cgroup is that of its largest descendant.
func TestPeakOfLargest(t *testing.T) {
	// A shell that makes a string of 64 MiB, in a process of its own, waits for it,
	// and is small itself.
	p := start(t, Command{Args: []string{"sh", "-c", `sh -c 'a=$(head -c 67108864 /dev/zero | tr "\0" x); : "$a"'; exit 3`}, Peak: true})
	if _, known := p.Peak(); known {
		t.Error("a peak is known before the end")
	}
	if status := p.Wait(); status.Code != 3 {
		t.Fatal(status)
	}
	peak, known := p.Peak()
	if !known || peak.Bytes < 64<<20 || peak.Bytes > 4<<30 {
		t.Errorf("peak %+v, %v", peak, known)
	}
	q := start(t, Command{Args: []string{"true"}})
	q.Wait()
	if peak, known := q.Peak(); known {
		t.Errorf("a peak that nobody asked for: %+v", peak)
	}
}

// The peak of a cgroup counts only if no process but this one was in it.
func TestPeakOfCgroup(t *testing.T) {
	mount := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(mount, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("own/cgroup.procs", "42\n")
	write("own/memory.peak", "123456789\n")
	write("old/cgroup.procs", "42\n") // a kernel without memory.peak
	write("shared/cgroup.procs", "7\n42\n")
	write("shared/memory.peak", "99\n")
	write("cgroup.procs", "42\n")
	write("memory.peak", "5555\n") // of a container, whose cgroups begin at its own
	largest := Peak{Bytes: 1000}
	for cgroups, want := range map[string]Peak{
		"4:memory:/own\n0::/own\n": {Bytes: 123456789, Cgroup: true},
		"0::/\n":                   {Bytes: 5555, Cgroup: true},
		"0::/old\n":                largest,
		"0::/shared\n":             largest,
		"0::/none\n":               largest,
		"4:memory:/own\n":          largest, // version 1
		"":                         largest,
	} {
		if got := peakOf(ownCgroup(mount, cgroups, 42), 1000); got != want {
			t.Errorf("%s: peak %+v, want %+v", strconv.Quote(cgroups), got, want)
		}
	}
}
