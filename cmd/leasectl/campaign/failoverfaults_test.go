package campaign

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/internal/proxyserver/store/etcd/etcdtest"
	"github.com/leasectl/leasectl/internal/proxyserver/store/postgres/pgtest"
)

// postgresFaults are what happens to PostgreSQL, and to its connections.
func postgresFaults(t *testing.T, c *pgtest.Cluster, servers []*replica) func(random *rand.Rand) []outage {
	var locks *pgconn.PgConn
	operate := func(sql string) *pgconn.PgConn {
		ctx, cancel := context.WithTimeout(t.Context(), clitest.Patience)
		defer cancel()
		conn, err := pgconn.Connect(ctx, c.URL())
		if err == nil {
			_, err = conn.Exec(ctx, sql).ReadAll()
		}
		if err != nil {
			t.Errorf("%s: %v", sql, err)
		}
		return conn
	}
	leave := func(conn *pgconn.PgConn) { // without waiting for a server that may be gone
		if conn == nil {
			return
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		conn.Close(ctx)
	}
	links := func(do func(k *link)) func() {
		return func() {
			for _, s := range servers {
				for _, k := range s.links {
					do(k)
				}
			}
		}
	}
	return func(random *rand.Rand) []outage {
		slow := int64(time.Duration(1+random.IntN(300)) * time.Millisecond)
		return []outage{
			{ofDatabase, "PostgreSQL is killed", c.Kill, func() {
				if err := c.Start(); err != nil {
					t.Error(err)
				}
			}},
			{ofDatabase, "PostgreSQL is stopped", c.Stop, c.Continue},
			{ofOperator, "PostgreSQL ends all connections", func() {
				leave(operate("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'leasectl'"))
			}, func() {}},
			{ofOperator, "the table store is locked", func() { locks = operate("BEGIN; LOCK TABLE leasectl.store") }, func() { leave(locks) }},
			{ofOperator, "answers break connections", links(func(k *link) { k.deaf.Store(true) }), links(func(k *link) { k.deaf.Store(false) })},
			{ofOperator, "the network is slow", links(func(k *link) { k.slow.Store(slow) }), links(func(k *link) { k.slow.Store(0) })},
		}
	}
}

// etcdFaults are what happens to a member of etcd, and to etcd as a whole.
func etcdFaults(c *etcdtest.Cluster, admin *etcdAdmin) func(random *rand.Rand) []outage {
	return func(random *rand.Rand) []outage {
		member := c.Members[random.IntN(len(c.Members))]
		return []outage{
			{ofDatabase, "a member of etcd is killed", member.Kill, func() {
				if err := member.Start(); err != nil {
					admin.t.Error(err)
				}
			}},
			{ofDatabase, "a member of etcd is stopped", member.Stop, member.Continue},
			{ofOperator, "etcd is full", admin.fill, admin.makeRoom},
			{ofOperator, "the history of etcd is compacted", admin.compact, func() {}},
			{ofOperator, "etcd asks for passwords", admin.lock, admin.unlock},
		}
	}
}

// etcdAdmin is the operator of a campaign's etcd. It makes etcd refuse writes, compacts its
// history, and makes it ask for passwords. It also undoes each of these, whatever else happens to
// etcd meanwhile.
type etcdAdmin struct {
	t       *testing.T
	members []string // HOST:PORT
	token   string
}

const adminPassword = "secret-of-root"

// credentialsFile writes the credentials that servers show to etcd when it asks for passwords.
func credentialsFile(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(path, []byte("root:"+adminPassword+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// newEtcdAdmin prepares users in an etcd that does not ask for passwords yet.
func newEtcdAdmin(t *testing.T, members []string) *etcdAdmin {
	a := &etcdAdmin{t: t, members: members}
	for path, body := range map[string]string{"auth/user/add": `{"name":"root","password":"` + adminPassword + `"}`, "auth/role/add": `{"name":"root"}`} {
		a.insist(path, body)
	}
	a.insist("auth/user/grant", `{"user":"root","role":"root"}`)
	return a
}

// try asks one member after the other until one does it. Each has the given time to answer.
func (a *etcdAdmin) try(within time.Duration, path, body string) (answer []byte, err error) {
	client := http.Client{Timeout: within}
	for _, host := range a.members {
		req, _ := http.NewRequest(http.MethodPost, "http://"+host+"/v3/"+path, bytes.NewReader([]byte(body)))
		if a.token != "" {
			req.Header.Set("Authorization", a.token)
		}
		var resp *http.Response
		if resp, err = client.Do(req); err != nil {
			continue
		}
		answer, err = io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil && (resp.StatusCode == http.StatusOK || bytes.Contains(answer, []byte("already exists"))) {
			return answer, nil // an earlier try succeeded, and its answer was late
		}
		err = fmt.Errorf("%s: %s %s", path, resp.Status, answer)
	}
	return nil, err
}

// insist tries until a member does it. A try has twice the time of the one before: etcd hashes a
// password for each, which takes a slow machine seconds, and more while others are hashed.
func (a *etcdAdmin) insist(path, body string) []byte {
	end := time.Now().Add(clitest.Patience)
	for within := time.Second; ; within *= 2 {
		answer, err := a.try(within, path, body)
		if err == nil {
			return answer
		}
		time.Sleep(50 * time.Millisecond)
		if time.Now().After(end) {
			a.t.Fatal(err)
		}
	}
}

// fill makes etcd refuse writes, as at its quota.
func (a *etcdAdmin) fill() { a.try(time.Second, "maintenance/alarm", `{"action":1,"alarm":1}`) }

// makeRoom undoes fill.
func (a *etcdAdmin) makeRoom() {
	for {
		var list struct {
			Alarms []struct {
				MemberID string `json:"memberID"`
			} `json:"alarms"`
		}
		if err := json.Unmarshal(a.insist("maintenance/alarm", `{}`), &list); err != nil {
			a.t.Error(err)
		}
		if len(list.Alarms) == 0 {
			return
		}
		for _, alarm := range list.Alarms {
			a.insist("maintenance/alarm", `{"action":2,"alarm":1,"memberID":"`+cmp.Or(alarm.MemberID, "0")+`"}`)
		}
	}
}

// compact removes all history, as another user of etcd may.
func (a *etcdAdmin) compact() {
	var status struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	}
	if answer, err := a.try(time.Second, "maintenance/status", `{}`); err == nil && json.Unmarshal(answer, &status) == nil {
		a.try(time.Second, "kv/compaction", `{"revision":"`+status.Header.Revision+`","physical":true}`)
	}
}

// lock makes etcd ask for passwords.
func (a *etcdAdmin) lock() { a.try(time.Second, "auth/enable", `{}`) }

// unlock undoes lock.
func (a *etcdAdmin) unlock() {
	end := time.Now().Add(clitest.Patience)
	for within := time.Second; ; within *= 2 { // as in insist
		a.token = ""
		answer, err := a.try(within, "auth/authenticate", `{"name":"root","password":"`+adminPassword+`"}`)
		if err != nil && bytes.Contains([]byte(err.Error()), []byte("not enabled")) {
			return
		}
		var login struct{ Token string }
		if err == nil && json.Unmarshal(answer, &login) == nil {
			a.token = login.Token
			_, err = a.try(within, "auth/disable", `{}`)
		}
		if err == nil {
			a.token = ""
			return
		}
		if time.Now().After(end) {
			a.t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
