package bolt

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/internal/proxyserver/store/record"
)

// content is the whole content of a file.
type content struct {
	meta     metaRecord
	snapshot pool.Snapshot
}

// verify reads the whole file at path, and checks it as load does. Meanwhile it holds the
// lock that writers respect.
func verify(path string) (err error) {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		return fmt.Errorf("%w: it is empty", store.ErrDamaged)
	}
	db, file, err := open(path, true)
	if err != nil {
		if _, system := errors.AsType[*fs.PathError](err); system || errors.Is(err, bolterrors.ErrTimeout) {
			return err
		}
		return damagedStart(path, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	_, err = load(file)
	return err
}

// damagedStart returns what is wrong with a file that bbolt refused with the error cause.
func damagedStart(path string, cause error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := load(file); err != nil {
		return err
	}
	return fmt.Errorf("%w, or no file of ours: %w", store.ErrDamaged, cause)
}

// load reads the whole file, and checks everything that can be checked.
func load(file *os.File) (c content, err error) {
	info, err := file.Stat()
	if err != nil {
		return c, err
	}
	return loadFrom(file, info.Size())
}

// loadFrom is load of a file of length bytes.
func loadFrom(file io.ReaderAt, length int64) (content, error) {
	var r reader
	err := r.read(file, length)
	return content{meta: r.meta, snapshot: r.snapshot}, err
}

// read reads the whole file.
func (r *reader) read(file io.ReaderAt, length int64) error {
	p, err := readPages(file, length)
	if err != nil {
		return err
	}
	root, err := findBucket(p)
	if err != nil {
		return err
	}
	// The meta record says whether the others can be read, and some of them come before it. So
	// the pages are read twice.
	var raw []byte
	err = p.each(root, func(key, value []byte) error {
		if len(key) == 0 {
			return errors.New("an empty key")
		}
		if string(key) == string(metaKey) {
			raw = append([]byte{}, value...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if r.meta, err = decodeMeta(raw); err != nil {
		return err
	}
	if r.meta.Transaction != p.transaction {
		return fmt.Errorf("%w: %s is of transaction %d, and the file of transaction %d", store.ErrDamaged, describe(metaKey), r.meta.Transaction, p.transaction)
	}
	if err := p.each(root, r.record); err != nil {
		return err
	}
	return r.check()
}

// findBucket returns the bucket of the records. Any other bucket is an error.
func findBucket(p *pages) (found subtree, err error) {
	var others []string
	ok := false
	err = p.buckets(func(name []byte, at subtree) {
		if string(name) == string(bucket) {
			found, ok = at, true
		} else {
			others = append(others, string(name))
		}
	})
	switch {
	case err != nil:
		return found, err
	case !ok || len(others) > 0:
		return found, fmt.Errorf("%w, or another program's: want one bucket %q, and it has others: %q", store.ErrDamaged, bucket, others)
	}
	return found, nil
}

// reader adds records to a snapshot, one after the other, and counts them.
type reader struct {
	sumsOnly bool       // check the sums, and keep nothing
	meta     metaRecord // of the file
	snapshot pool.Snapshot
	records  int
	sum      uint64
}

// record adds one record.
func (r *reader) record(key, value []byte) error {
	if string(key) == string(metaKey) {
		r.snapshot.Clock, r.snapshot.Generation = r.meta.Clock, r.meta.Generation
		return nil
	}
	payload, sum, err := unseal(key, value)
	if err != nil {
		return fmt.Errorf("%s: %w", describe(key), err)
	}
	r.records++
	r.sum += uint64(sum)
	if r.sumsOnly {
		return nil
	}
	if err := record.Add(&r.snapshot, key, payload); err != nil {
		return fmt.Errorf("%s: %w", describe(key), err)
	}
	return nil
}

// check returns an error if records were lost, or replaced by older versions.
func (r *reader) check() error {
	switch {
	case r.records != r.meta.Records:
		return fmt.Errorf("%w: bucket %q: it has %d records, and should have %d", store.ErrDamaged, bucket, r.records, r.meta.Records)
	case r.sum != r.meta.Sum:
		return fmt.Errorf("%w: bucket %q: some of its %d records are older ones", store.ErrDamaged, bucket, r.records)
	}
	return nil
}
