package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"

	"github.com/leasectl/leasectl/internal/proxyserver/store"
)

// The layout of a bbolt file, in the byte order of the machine. A page begins with a
// header: id (8 bytes), flags (2), number of elements (2), and how many further pages it
// takes (4). The elements follow, 16 bytes each, and then keys and values. An element has
// the place of its key and value, relative to the element.
const (
	headerSize  = 16
	elementSize = 16
	metaSize    = 64

	flagBranch = 0x01
	flagLeaf   = 0x02
	flagMeta   = 0x04

	elementIsBucket = 0x01

	magic      = 0xED0CDAED
	version    = 2
	noFreelist = 1<<64 - 1
)

// pages reads a bbolt file. Unlike bbolt it trusts nothing: an invalid page is an error that
// says which page it is, and what is wrong with it.
type pages struct {
	file        io.ReaderAt
	size        int64  // of a page, in bytes
	end         uint64 // the first page after those in use
	root        uint64
	transaction int // the last one
}

// readPages reads pages 0 and 1 of a file of length bytes. Transactions write these pages in
// turns. Both must be valid: if only one is, the damaged one may be the newer, and the file
// would be read as of the transaction before the last.
func readPages(file io.ReaderAt, length int64) (*pages, error) {
	first, size, err := readMeta(file, 0, 0)
	if err != nil {
		return nil, err
	}
	second, _, err := readMeta(file, 1, size)
	if err != nil {
		return nil, err
	}
	p := first
	if second.transaction > first.transaction {
		p = second
	}
	if first.size != second.size || max(first.transaction, second.transaction)-min(first.transaction, second.transaction) != 1 {
		return nil, fmt.Errorf("%w: pages 0 and 1 contradict each other", store.ErrDamaged)
	}
	if p.end > uint64(length/p.size) {
		return nil, fmt.Errorf("%w: %d of %d bytes are there", store.ErrDamaged, length, p.end*uint64(p.size))
	}
	p.file = file
	return p, nil
}

// readMeta reads page 0 or 1, which is at offset at, and returns the offset of page 1.
func readMeta(file io.ReaderAt, id uint64, at int64) (*pages, int64, error) {
	fail := func(what string) (*pages, int64, error) {
		return nil, 0, fmt.Errorf("%w, or no file of ours: page %d: %s", store.ErrDamaged, id, what)
	}
	page := make([]byte, headerSize+metaSize)
	if _, err := file.ReadAt(page, at); errors.Is(err, io.EOF) {
		return fail("it is cut short")
	} else if err != nil {
		return nil, 0, unread(id, err)
	}
	meta := page[headerSize:]
	sum := fnv.New64a()
	sum.Write(meta[:metaSize-8])
	p := &pages{
		size:        int64(binary.NativeEndian.Uint32(meta[8:])),
		root:        binary.NativeEndian.Uint64(meta[16:]),
		end:         binary.NativeEndian.Uint64(meta[40:]),
		transaction: int(binary.NativeEndian.Uint64(meta[48:])),
	}
	switch {
	case binary.NativeEndian.Uint32(meta) != magic:
		return fail("it is not how a store begins")
	case binary.NativeEndian.Uint32(meta[4:]) != version:
		return fail("its version is not known")
	case binary.NativeEndian.Uint64(meta[metaSize-8:]) != sum.Sum64():
		return fail("its checksum is wrong")
	case binary.NativeEndian.Uint64(page) != id || binary.NativeEndian.Uint16(page[8:]) != flagMeta || p.size < 1024 || p.transaction < 0:
		return fail("it is changed")
	}
	return p, p.size, nil
}

// subtree is where the keys of a bucket are: in a page and those below it, or, if they are
// few, inside a page of the parent bucket.
type subtree struct {
	page   uint64
	inline []byte // not nil: the only page of the bucket, which is inside page
}

// buckets calls visit with each bucket of the file.
func (p *pages) buckets(visit func(name []byte, at subtree)) error {
	w := walk{pages: p, seen: map[uint64]bool{}}
	w.visit = func(id uint64, e element) error {
		if !e.isBucket || len(e.value) < headerSize {
			return fmt.Errorf("key %q is no bucket", e.key)
		}
		at := subtree{page: binary.NativeEndian.Uint64(e.value)}
		if at.page == 0 {
			at = subtree{id, slices.Clone(e.value[headerSize:])}
		}
		visit(e.key, at)
		return nil
	}
	return w.page(p.root, nil, nil)
}

// each calls visit with each key of a bucket, in order, and its value. Both are valid only
// during the call. An error of visit is returned as damage to the page.
func (p *pages) each(at subtree, visit func(key, value []byte) error) error {
	w := walk{pages: p, seen: map[uint64]bool{p.root: true}}
	w.visit = func(_ uint64, e element) error {
		if e.isBucket {
			return fmt.Errorf("key %q is a bucket", e.key)
		}
		if err := visit(e.key, e.value); err != nil {
			return fmt.Errorf("bucket %q: %w", bucket, err)
		}
		return nil
	}
	if at.inline == nil {
		return w.page(at.page, nil, nil)
	}
	return damagedPage(at.page, w.leaf(at.page, at.inline, nil, nil))
}

func damagedPage(id uint64, err error) error {
	if err == nil || errors.Is(err, store.ErrDamaged) || errors.Is(err, errUnread) {
		return err
	}
	return fmt.Errorf("%w: page %d: %w", store.ErrDamaged, id, err)
}

// errUnread is the error of a page that cannot be read from the disk. Its content may be
// undamaged.
var errUnread = errors.New("it cannot be read")

// unread turns an error of reading a page into errUnread, except io.EOF.
func unread(id uint64, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return fmt.Errorf("%w: page %d: %w", errUnread, id, err)
}

// walk visits the pages of a tree once.
type walk struct {
	*pages
	seen  map[uint64]bool // the pages that were visited
	visit func(page uint64, e element) error
}

// page reads a page and those below it. Their keys must not be less than lower, and must be
// less than upper unless upper is nil.
func (w *walk) page(id uint64, lower, upper []byte) error {
	data, err := w.read(id)
	if err == nil {
		switch binary.NativeEndian.Uint16(data[8:]) {
		case flagBranch:
			err = w.branch(data, lower, upper)
		case flagLeaf:
			err = w.leaf(id, data, lower, upper)
		default:
			err = fmt.Errorf("its type is %#x", binary.NativeEndian.Uint16(data[8:]))
		}
	}
	return damagedPage(id, err)
}

// read returns the bytes of a page, and of the further pages that it takes. A page that was
// visited before is an error.
func (w *walk) read(id uint64) ([]byte, error) {
	if id < 2 || id >= w.end {
		return nil, fmt.Errorf("it is not in use: pages 2 to %d are", w.end-1)
	}
	header := make([]byte, headerSize)
	if _, err := w.file.ReadAt(header, int64(id)*w.size); err != nil {
		return nil, unread(id, err)
	}
	if binary.NativeEndian.Uint64(header) != id {
		return nil, fmt.Errorf("it says that it is page %d", binary.NativeEndian.Uint64(header))
	}
	last := id + uint64(binary.NativeEndian.Uint32(header[12:]))
	if last >= w.end {
		return nil, fmt.Errorf("it reaches to page %d, and %d is the last in use", last, w.end-1)
	}
	for page := id; page <= last; page++ {
		if w.seen[page] {
			return nil, fmt.Errorf("page %d has two uses", page)
		}
		w.seen[page] = true
	}
	data := make([]byte, int64(last-id+1)*w.size)
	_, err := w.file.ReadAt(data, int64(id)*w.size)
	return data, unread(id, err)
}

func (w *walk) branch(data, lower, upper []byte) error {
	elements, err := elementsOf(data, lower, upper, func(raw []byte) (element, uint64) {
		// place of the key, its size, the page below
		e := element{child: binary.NativeEndian.Uint64(raw[8:])}
		e.keySize = uint64(binary.NativeEndian.Uint32(raw[4:]))
		return e, uint64(binary.NativeEndian.Uint32(raw))
	})
	if err != nil {
		return err
	}
	if len(elements) == 0 {
		return errors.New("it has no page below it")
	}
	for i, e := range elements {
		next := upper
		if i+1 < len(elements) {
			next = elements[i+1].key
		}
		if err := w.page(e.child, e.key, next); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) leaf(id uint64, data, lower, upper []byte) error {
	if len(data) < headerSize || binary.NativeEndian.Uint16(data[8:]) != flagLeaf {
		return errors.New("it is no leaf")
	}
	elements, err := elementsOf(data, lower, upper, func(raw []byte) (element, uint64) {
		// flags, place of the key, its size, size of the value behind it
		e := element{isBucket: binary.NativeEndian.Uint32(raw)&elementIsBucket != 0}
		e.keySize, e.valueSize = uint64(binary.NativeEndian.Uint32(raw[8:])), uint64(binary.NativeEndian.Uint32(raw[12:]))
		return e, uint64(binary.NativeEndian.Uint32(raw[4:]))
	})
	if err != nil {
		return err
	}
	for _, e := range elements {
		if err := w.visit(id, e); err != nil {
			return err
		}
	}
	return nil
}

// element is one key of a page.
type element struct {
	key, value         []byte
	child              uint64 // of a branch
	isBucket           bool   // of a leaf
	keySize, valueSize uint64
}

// elementsOf returns the elements of a page. decode reads an element from its 16 bytes, and
// returns the place of the key, too.
func elementsOf(data, lower, upper []byte, decode func(raw []byte) (e element, place uint64)) ([]element, error) {
	n := int(binary.NativeEndian.Uint16(data[10:]))
	if headerSize+n*elementSize > len(data) {
		return nil, fmt.Errorf("%d elements do not fit into it", n)
	}
	elements := make([]element, n)
	for i := range elements {
		raw := data[headerSize+i*elementSize:]
		e, place := decode(raw[:elementSize])
		if place+e.keySize+e.valueSize > uint64(len(raw)) {
			return nil, fmt.Errorf("element %d ends behind it", i)
		}
		e.key, e.value = raw[place:][:e.keySize], raw[place+e.keySize:][:e.valueSize]
		if i > 0 && bytes.Compare(e.key, elements[i-1].key) <= 0 ||
			bytes.Compare(e.key, lower) < 0 || upper != nil && bytes.Compare(e.key, upper) >= 0 {
			return nil, fmt.Errorf("key %q is in the wrong place", e.key)
		}
		elements[i] = e
	}
	return elements, nil
}
