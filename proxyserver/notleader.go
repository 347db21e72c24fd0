package proxyserver

import "github.com/leasectl/leasectl/proxyserver/store"

// notLeaderError refuses a call because another server leads, or may lead.
type notLeaderError struct {
	election store.Election
	cause    error
	standby  bool // the term that refuses has never led
}

func (e *notLeaderError) Error() string { return e.cause.Error() }

// Is makes the error a [store.ErrNotLeader].
func (e *notLeaderError) Is(target error) bool { return target == store.ErrNotLeader }

func (e *notLeaderError) Unwrap() error { return e.cause }
