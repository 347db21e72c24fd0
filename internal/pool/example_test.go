package pool_test

import (
	"fmt"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
)

func ExampleAutoPace() {
	fmt.Println(pool.AutoPace(20*time.Minute, 50))
	// Output: 24s
}

func Example() {
	set, err := pool.New([]pool.Config{{Type: "quota", Names: []string{"east", "west"}}}, pool.Snapshot{}, pool.PriorityAging)
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Duration(0) // the lease clock
	for _, id := range []string{"a", "b", "c"} {
		leases, err := set.Acquire(now, pool.Request{ID: id, Type: "quota"})
		fmt.Println(id, "has", len(leases), err)
	}
	next, _ := set.Next() // nobody confirms
	set.Advance(next)
	for _, c := range set.Drain() {
		switch c.Kind {
		case pool.Granted:
			fmt.Println("granted", c.Leases[0].Name, "to", c.ID, "after", c.Took)
		case pool.Done:
			fmt.Println(c.Reason, c.Lease.Name)
		}
	}
	// Output:
	// a has 1 <nil>
	// b has 1 <nil>
	// c has 0 <nil>
	// granted east to a after 0s
	// granted west to b after 0s
	// expired east
	// expired west
	// granted east to c after 30s
}
