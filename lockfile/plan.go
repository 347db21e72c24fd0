package lockfile

// A change of a handle is a list of steps, each of which is one rename or one
// removal. Its process may be killed after any of them. The steps are chosen such
// that the files then mean either the record before the change or the one after
// it, as [files.record] reads them:
//
//	on disk                              steps
//	no record, and the names to be       write the record
//	nothing                              write the record, write the names
//	anything else                        [finish the change of a killed process,]
//	                                     write the next record, change the names,
//	                                     remove the old record, rename the next one
//	a handle that is to be removed       remove what does not count, the names,
//	                                     what counts
//
// The detour by way of the next record is there because a record counts only if
// the names are its own. If the record or the names were replaced first, the two
// would not belong together for a moment, and a reader would see a bare handle or
// none.

// stepsTo returns the steps from f, the files of h, to the record to, which is not
// the zero Record and is encoded as data. What a script did to the files since
// they were read is done as if it came after this change.
func (f files) stepsTo(h Handle, to Record, data []byte) (steps []change) {
	names, record, next := h.path, h.jsonPath(), h.nextPath()
	namesStay := f.holdNamesOf(to)
	if namesStay && f.json == nil && f.next == nil {
		return []change{replace(record, data)} // over nothing that counts
	}
	if f.text == nil && f.json == nil && f.next == nil && to.State == StateHeld {
		// Until the names are there, the record is no handle. It comes first, since
		// names without it are a bare handle.
		return []change{replace(record, data), replace(names, formatNames(to.NamesInFile()))}
	}
	if _, counts, err := f.record(); err == nil && counts == nextSuffix {
		// The next record of a killed process counts already. It takes the place
		// of the old one, which does not, and its own path is free.
		steps = append(steps, rename(next, record))
	}
	// The names are the old record's, so that still counts; if they stay, the
	// new one counts from here on.
	steps = append(steps, replace(next, data))
	switch {
	case namesStay:
	case to.hasNamesFile():
		steps = append(steps, replace(names, formatNames(to.NamesInFile()))) // now the next record counts
	default:
		steps = append(steps, remove(names)) // likewise
	}
	return append(steps,
		// The next record counts, the old one does not. (A rename over the old
		// one would do, but ext4 then starts writing out the new one,
		// auto_da_alloc, which takes as long as all the other steps together.)
		remove(record),
		// The one record there is counts, under either path.
		rename(next, record),
	)
}

// stepsToNone returns the steps that remove h, whose files are f. Its leases were
// given back, so it may be gone early, but it must not turn into another handle.
func (f files) stepsToNone(h Handle) (steps []change) {
	_, counts, _ := f.record() // "" for a broken record: it counts as little as none
	// What does not count now might count without the rest, so it goes first.
	for _, suffix := range []string{nextSuffix, jsonSuffix} {
		if suffix != counts {
			steps = append(steps, remove(h.path+suffix))
		}
	}
	// Names without a record are a bare handle, and a held record without names is
	// no handle: so the names go first. A queued or releasing record counts until
	// it goes itself.
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

// after returns what the files of h, which are f, are after steps.
func (f files) after(h Handle, steps []change) files {
	for _, step := range steps {
		data := step.data
		if step.from != "" {
			from := f.at(h, step.from)
			data, *from = *from, nil
		}
		*f.at(h, step.path) = data
	}
	f.names, _ = parseNames(f.text) // of names that were checked
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
