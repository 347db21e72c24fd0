package leaseapi

import "testing"

// The words of each kind of reason, here and in another pool.
func TestWaitReasonWords(t *testing.T) {
	for _, tt := range []struct {
		reason WaitReason
		want   string
	}{
		{WaitReason{}, ""},
		{WaitReason{Kind: WaitFull}, "full"},
		{WaitReason{Kind: "moonlight"}, "moonlight"}, // of a newer server
		{WaitReason{Kind: WaitUnits, Units: 3}, "wants 3"},
		{WaitReason{Kind: WaitUnits, Units: 3, Reserved: 2, Capacity: 4}, "wants 3, 2 of 4 reserved"},
		{WaitReason{Kind: WaitTurn}, "what is free is for a request that waits"},
		{WaitReason{Kind: WaitKey}, "key"},
		{WaitReason{Kind: WaitKey, By: "job-1", Token: "ci"}, "key held by job-1"},
		{WaitReason{Kind: WaitKey, Token: "ci"}, "key held by token ci"},
		{WaitReason{Kind: WaitWriter}, "behind a writer"},
		{WaitReason{Kind: WaitName, Name: "aws-1"}, "wants aws-1"},
		{WaitReason{Kind: WaitName, Name: "aws-1", By: "job-1"}, "wants aws-1, held by job-1"},
		{WaitReason{Kind: WaitReserved, Name: "aws-1", By: "alice", Text: "repair"}, "wants aws-1, reserved by alice: repair"},
		{WaitReason{Kind: WaitLocked, Name: "aws-1"}, "lock delay of aws-1"},
		{WaitReason{Kind: WaitPaused, Text: "drill"}, "paused: drill"},
		{WaitReason{Kind: WaitPaused, Text: "drill", Type: "db"}, "waits for db too: paused: drill"},
		{WaitReason{Kind: WaitKey, By: "job-1", Type: "db"}, "waits for db too: key held by job-1"},
		{WaitReason{Kind: WaitElsewhere, Type: "db"}, "waits for db too"},
		{WaitReason{Kind: WaitElsewhere}, "waits for another pool too"},
		{WaitReason{Kind: WaitCircle, By: "B", Type: "db"}, "waits for B, which waits for you in db"},
		{WaitReason{Kind: WaitCircle, By: "B"}, "waits for B, which waits for you in another pool"},
		{WaitReason{Kind: WaitFull, Around: "db-0, db-1", Type: "db"}, "waits for db too: full, db-0, db-1 held by the exec around this one"},
	} {
		if got := tt.reason.String(); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.reason, got, tt.want)
		}
	}
}
