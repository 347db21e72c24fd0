package record

// asked is what a request said of what it wants, as its leases and its waiter have
// it.
type asked struct {
	Count      int    `json:"count"`
	Items      int    `json:"items,omitempty"`
	HasItems   bool   `json:"has_items,omitempty"`
	Weighted   bool   `json:"weighted,omitempty"`
	Key        string `json:"key,omitempty"`
	Overcommit bool   `json:"overcommit,omitempty"`
}
