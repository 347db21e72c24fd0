package sys

import "os"

// Descriptors returns the descriptors of files for a new process, that of /dev/null for a nil
// file. done closes /dev/null.
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
