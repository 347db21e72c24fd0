package lockfile

// A change of a handle is a list of steps, each of which is one rename or one removal. The
// process may be killed after any of them. After each step the files mean either the record
// before the change or the one after it, as [files.record] reads them:
//
//	on disk                              steps
//	the new names, without a record      write the record
//	nothing, and the new record is held  write the record, write the names
//	anything else                        [finish the change of a killed process,]
//	                                     write the next record, change the names,
//	                                     remove the old record, rename the next one
//	a handle to remove                   remove the records that do not count, the
//	                                     names, the record that counts
//
// The detour through the next record is needed because a record counts only together with its
// own names. If the record or the names were replaced first, the two would not belong together
// for a moment, and a reader would see a bare handle or none.

// stepsTo returns the steps from f, the files of h, to the record to, which is not the zero
// Record and is encoded as data. If a script changes the names file after f was read, its
// change counts as made before this one if the steps write or remove the names, and as made
// after it otherwise.
func (f files) stepsTo(h Handle, to Record, data []byte) (steps []change) {
	names, record, next := h.path, h.jsonPath(), h.nextPath()
	namesStay := f.holdNamesOf(to)
	if namesStay && f.json == nil && f.next == nil {
		return []change{replace(record, data)} // there is no record that it could replace
	}
	if f.text == nil && f.json == nil && f.next == nil && to.State == HandleHeld {
		// The record comes first: without names it is no handle, but names without it are a
		// bare handle.
		return []change{replace(record, data), replace(names, formatNames(to.NamesInFile()))}
	}
	if _, counts, err := f.record(); err == nil && counts == nextSuffix {
		// The next record of a killed process counts already, and the old one does not.
		// Renaming it over the old one frees its path.
		steps = append(steps, rename(next, record))
	}
	// The names belong to the old record, so the old record still counts. If the names stay,
	// the new record counts from here on.
	steps = append(steps, replace(next, data))
	switch {
	case namesStay:
	case to.hasNamesFile():
		steps = append(steps, replace(names, formatNames(to.NamesInFile()))) // now the next record counts
	default:
		steps = append(steps, remove(names)) // now the next record counts
	}
	return append(steps,
		// The next record counts, the old one does not. (Renaming over the old one would do,
		// but ext4 (auto_da_alloc) then starts writing out the new one, which takes as long as
		// all the other steps together.)
		remove(record),
		// The only record left counts, under either path.
		rename(next, record),
	)
}

// stepsToNone returns the steps that remove h, whose files are f. Its leases were given back,
// so the handle may be gone before the last step, but it must never read as another handle.
func (f files) stepsToNone(h Handle) (steps []change) {
	_, counts, _ := f.record() // "" if no record counts, such as a broken one
	// A record that does not count now might count once the other files are gone, so it goes
	// first.
	for _, suffix := range []string{nextSuffix, jsonSuffix} {
		if suffix != counts {
			steps = append(steps, remove(h.path+suffix))
		}
	}
	// The names go before the record: names without a record are a bare handle, and a held
	// record without names is no handle. A queued or releasing record counts until it is
	// removed itself.
	steps = append(steps, remove(h.path))
	if counts != "" {
		steps = append(steps, remove(h.path+counts))
	}
	return f.onlyThere(h, steps)
}

// onlyThere drops the removals of files that do not exist.
func (f files) onlyThere(h Handle, removals []change) (steps []change) {
	for _, step := range removals {
		if *f.at(h, step.path) != nil {
			steps = append(steps, step)
		}
	}
	return steps
}

// after returns f, the files of h, as they are after steps.
func (f files) after(h Handle, steps []change) files {
	for _, step := range steps {
		data := step.data
		if step.from != "" {
			from := f.at(h, step.from)
			data, *from = *from, nil
		}
		*f.at(h, step.path) = data
	}
	f.names, _ = parseNames(f.text) // the names were checked before
	return f
}

// at returns the field of f for the file of h at path.
func (f *files) at(h Handle, path string) *[]byte {
	switch path {
	case h.nextPath():
		return &f.next
	case h.jsonPath():
		return &f.json
	}
	return &f.text
}
