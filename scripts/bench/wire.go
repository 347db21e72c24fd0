package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/leasectl/leasectl/leaseapi"
)

// wire is a client that costs little beside what is measured: one connection,
// and requests written out by hand.
type wire struct {
	conn net.Conn
	r    *bufio.Reader
}

func dial(addr string) (*wire, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &wire{conn, bufio.NewReaderSize(conn, 1<<10)}, nil
}

func (w *wire) send(method, target, body string) error {
	_, err := fmt.Fprintf(w.conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method, target, len(body), body)
	return err
}

// answer waits for the answer to what was sent.
func (w *wire) answer() (text []byte, err error) {
	status, text, err := w.anyAnswer()
	if err == nil && status >= 300 {
		err = fmt.Errorf("%d %s: %s", status, http.StatusText(status), text)
	}
	return text, err
}

// anyAnswer is answer, but a status of an error is no error here.
func (w *wire) anyAnswer() (status int, text []byte, err error) {
	resp, err := http.ReadResponse(w.r, nil)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err = io.ReadAll(resp.Body)
	return resp.StatusCode, text, err
}

func (w *wire) call(method, target, body string) ([]byte, error) {
	if err := w.send(method, target, body); err != nil {
		return nil, err
	}
	return w.answer()
}

// acquiring and releasing are the two calls of version 1, which the bare peers
// understand as well.
func (w *wire) acquiring(typ string) error {
	return w.send(http.MethodPost, leaseapi.PathAcquire+"?type="+typ, "")
}

// asking sends a request of our wire.
func (w *wire) asking(r leaseapi.AcquireRequest) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	query := url.Values{leaseapi.ParamType: {r.Type}, leaseapi.ParamAsk: {string(body)}} // the bare peers know the type only
	return w.send(http.MethodPost, leaseapi.PathAcquire+"?"+query.Encode(), "")
}

func (w *wire) releasing(name string) error {
	return w.send(http.MethodPost, leaseapi.PathRelease, `{"names":["`+name+`"]}`)
}

// granted waits for the answer to an acquire.
func (w *wire) granted() (leaseapi.AcquireReply, error) {
	var reply leaseapi.AcquireReply
	text, err := w.answer()
	if err != nil {
		return reply, err
	}
	if err := json.Unmarshal(text, &reply); err != nil {
		return reply, fmt.Errorf("answer %q: %w", text, err)
	}
	if len(reply.Names) != 1 {
		return reply, fmt.Errorf("answer %q: want one name", text)
	}
	return reply, nil
}

// pair takes a lease and gives it back.
func (w *wire) pair(typ string) error {
	if err := w.acquiring(typ); err != nil {
		return err
	}
	got, err := w.granted()
	if err != nil {
		return err
	}
	if err := w.releasing(got.Names[0]); err != nil {
		return err
	}
	_, err = w.answer()
	return err
}

// waiting asks how many requests are queued for the first pool.
func (w *wire) waiting() (int, error) {
	pool, err := w.pool()
	return pool.Waiting, err
}

// pool returns the state of the first pool. It asks for the smallest page, since listing the
// waiters is not measured.
func (w *wire) pool() (p leaseapi.Pool, err error) {
	text, err := w.call(http.MethodGet, leaseapi.PathPools+"?"+leaseapi.ParamLimit+"=1", "")
	if err != nil {
		return p, err
	}
	var reply leaseapi.PoolsReply
	if err := json.Unmarshal(text, &reply); err != nil {
		return p, err
	}
	if len(reply.Pools) == 0 {
		return p, fmt.Errorf("answer %q: want a pool", text)
	}
	return reply.Pools[0], nil
}

// close drops the connection.
func (w *wire) close() { w.conn.Close() }
