package pool

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// series counts units by a time, so that a change and a sum cost little however many times there are. It
// is a list of times in blocks: the first in each block is later than the last in the block before.
type series struct {
	blocks []block
	units  int // of all times
}

// block is a part of a series; it is never empty.
type block struct {
	before int // units of the blocks before it
	times  []unitsAt
}

// unitsAt is how many units a series has at a time; not zero.
type unitsAt struct {
	at    time.Duration
	units int
	sum   int // of the block up to this time
}

// blockSize is the most times of a block. A change moves up to so many times, or blocks.
const blockSize = 512

// add adds units at a time; a negative number takes away units that were added before.
func (s *series) add(at time.Duration, units int) {
	if units == 0 {
		return
	}
	s.units += units
	if len(s.blocks) == 0 {
		s.blocks = append(s.blocks, block{times: []unitsAt{{at: at}}})
	}
	i := max(0, s.blockOf(at))
	b := &s.blocks[i]
	j, found := slices.BinarySearchFunc(b.times, at, func(u unitsAt, at time.Duration) int { return cmp.Compare(u.at, at) })
	if !found {
		b.times = slices.Insert(b.times, j, unitsAt{at: at})
	}
	if b.times[j].units += units; b.times[j].units == 0 {
		b.times = slices.Delete(b.times, j, j+1)
	}
	if n := len(b.times); n == 0 {
		s.blocks = slices.Delete(s.blocks, i, i+1)
	} else if n > blockSize {
		rest := slices.Clone(b.times[n/2:])
		b.times = b.times[:n/2]
		s.blocks = slices.Insert(s.blocks, i+1, block{times: rest})
		s.blocks[i+1].sumUp()
	}
	before := 0
	if i < len(s.blocks) {
		s.blocks[i].sumUp()
	}
	if i > 0 {
		before = s.blocks[i-1].through()
	}
	for k := i; k < len(s.blocks); k++ {
		s.blocks[k].before = before
		before = s.blocks[k].through()
	}
}

// sumUp makes the sums of b right.
func (b *block) sumUp() {
	sum := 0
	for j := range b.times {
		sum += b.times[j].units
		b.times[j].sum = sum
	}
}

// through returns the units of b and of the blocks before it.
func (b *block) through() int { return b.before + b.times[len(b.times)-1].sum }

// blockOf returns the index of the last block that begins at a time or before it; -1: none does.
func (s *series) blockOf(at time.Duration) int {
	return sort.Search(len(s.blocks), func(i int) bool { return s.blocks[i].times[0].at > at }) - 1
}

// upTo returns the units up to a time.
func (s *series) upTo(at time.Duration) int {
	i := s.blockOf(at)
	if i < 0 {
		return 0
	}
	b := &s.blocks[i]
	j := sort.Search(len(b.times), func(j int) bool { return b.times[j].at > at })
	return b.before + b.times[j-1].sum
}

// last returns the last time; zero if there is none.
func (s *series) last() time.Duration {
	if len(s.blocks) == 0 {
		return 0
	}
	times := s.blocks[len(s.blocks)-1].times
	return times[len(times)-1].at
}
