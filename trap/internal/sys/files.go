package sys

import "os"

// Descriptors returns those of the files for a new process, /dev/null for a nil
// one. Done closes what it opened.
func Descriptors(files ...*os.File) (fds []uintptr, done func(), err error) {
	var null *os.File
	done = func() {
		if null != nil {
			null.Close()
		}
	}
	for _, f := range files {
		if f == nil {
			if null == nil {
				if null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
					return nil, done, err
				}
			}
			f = null
		}
		fds = append(fds, f.Fd())
	}
	return fds, done, nil
}
