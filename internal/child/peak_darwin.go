package child

// maxRSSUnit is the unit of ru_maxrss (getrusage(2)), in bytes.
const maxRSSUnit = 1

// cgroupOfOurOwn returns "": there are no cgroups.
func cgroupOfOurOwn() string { return "" }
