package suspend

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Total returns how long the machine has been suspended since it booted:
// the difference of CLOCK_BOOTTIME and CLOCK_MONOTONIC (clock_gettime(2)). It is 0 if the
// kernel lacks one of the clocks.
func Total() time.Duration {
	// If the process is stopped or preempted between two readings, the pause
	// looks like a suspend. So the reading counts only if the same clock, read
	// before and after, hardly moved.
	for {
		before, ok1 := readClock(unix.CLOCK_MONOTONIC)
		boot, ok2 := readClock(unix.CLOCK_BOOTTIME)
		after, ok3 := readClock(unix.CLOCK_MONOTONIC)
		switch {
		case !ok1 || !ok2 || !ok3:
			return 0 // a kernel without the clocks counts no suspended time
		case after-before < Shortest/2:
			return boot - before
		}
	}
}

func readClock(id int32) (time.Duration, bool) {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0, false
	}
	return time.Duration(ts.Nano()), true
}

// Resumes returns a channel that gets a value after each resume from a suspend, and
// when somebody sets the clock. Values do not accumulate: the channel holds one. Go's
// timers stand still in a suspend, so without the channel a deadline that passed
// meanwhile is noticed late, by the time that its timer had left. stop ends the watch
// and returns when its goroutine has ended.
//
// A timer on the wall clock with TFD_TIMER_CANCEL_ON_SET fails its reader with
// ECANCELED at these moments (timerfd_create(2)). On a kernel without that flag the
// channel is nil, and such a deadline is noticed late.
func Resumes() (c <-chan struct{}, stop func()) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, func() {}
	}
	timer := os.NewFile(uintptr(fd), "timerfd")
	if err := armResume(fd); err != nil {
		timer.Close()
		return nil, func() {}
	}
	resumed, done := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 8)
		for {
			if _, err := timer.Read(buf); !errors.Is(err, unix.ECANCELED) {
				return // closed; the timer itself never expires
			}
			select {
			case resumed <- struct{}{}:
			default: // an earlier value is still unread
			}
		}
	}()
	return resumed, func() {
		timer.Close()
		<-done
	}
}

// armResume sets the timer to the latest possible time: only its cancellation matters.
func armResume(fd int) error {
	never := unix.ItimerSpec{Value: unix.NsecToTimespec(1<<63 - 1)}
	return unix.TimerfdSettime(fd, unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET, &never, nil)
}
