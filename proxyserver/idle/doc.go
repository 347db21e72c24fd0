// Package idle ends a server that nobody needs, and loses no client that connects at
// that moment.
//
// A [Watch] counts connections from the moment they are accepted, and the other reasons to
// keep the server. When there has been no reason for long enough, [Watch.Wait] hides the
// listeners and looks into their accept queues. A client in a queue keeps the server: the
// client is accepted, and the listeners are shown again. A client that comes later does not
// find the listeners.
package idle
