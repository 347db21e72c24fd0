package dial

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// A handle may come from a stranger: in a checkout, an artifact, a directory that steps share. Its
// record names a proxy, and what is sent there has the user's token, and a list, from which lines are
// removed. So a record counts as ours only if it has the seal of the state directory: the sum of its
// request id, its proxy and its list under the key of the state directory. A seal needs no file of
// its own, and so leaves none.

// Seal returns r with the seal of the state directory. Without a key, as on a full disk, r has no seal, and
// counts as anybody's record.
func (d *Dialer) Seal(r lockfile.Record) lockfile.Record {
	key, err := lockfile.StateKey(d.stateDir)
	if key == nil && err == nil {
		if err = lockfile.MakeStateDir(d.stateDir); err == nil {
			key, err = lockfile.StateKey(d.stateDir)
		}
	}
	if err != nil {
		d.report.Debugf("the record gets no seal: %v", err)
		r.Seal = ""
		return r
	}
	r.Seal = sealOf(key, r)
	return r
}

func sealOf(key []byte, r lockfile.Record) string {
	sum := hmac.New(sha256.New, key)
	sum.Write([]byte(r.RequestID + "\x00" + r.Proxy + "\x00" + r.SharedList))
	return hex.EncodeToString(sum.Sum(nil))
}

// knows tells whether this run has a client of a proxy: then it had good reason to make one, also if the
// state directory has been removed since.
func (d *Dialer) knows(proxy string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.clients[proxy] != nil
}

// Sealed tells whether r has the seal of the state directory.
func (d *Dialer) Sealed(r lockfile.Record) bool {
	if r.Seal == "" {
		return false
	}
	key, err := lockfile.StateKey(d.stateDir)
	return err == nil && key != nil && hmac.Equal([]byte(r.Seal), []byte(sealOf(key, r)))
}

// Own returns r as a file of the state directory may have it: with the proxy that the user named, if r
// is anybody's record of another. See [Dialer.Noted].
func (d *Dialer) Own(r lockfile.Record) lockfile.Record {
	if proxy, err := d.Recorded(r); err == nil {
		r.Proxy = proxy
	} else {
		r.Proxy = d.URL
	}
	if name, err := d.Name(r.Proxy); r.Proxy != "" && err == nil {
		r.Proxy = name
	}
	return r
}

// Recorded returns the proxy of a handle's record: the recorded one if the record is ours, else the one
// of flags or environment if the record names the same. Any other is an error: a file must not say
// where a token goes.
func (d *Dialer) Recorded(r lockfile.Record) (string, error) {
	recorded := r.Proxy
	named := ""
	if d.URL != "" {
		name, err := d.Name(d.URL)
		if err != nil {
			return "", err
		}
		named = name
	}
	switch {
	case recorded == named || d.knows(recorded) || d.Sealed(r):
		return recorded, nil
	case named == "":
		return "", fmt.Errorf("the handle names the lease proxy %s, where no lease was taken with this state directory: give --proxy if that is right", proxyclient.Redacted(recorded))
	case Same(recorded, named):
		return d.URL, nil
	}
	return "", fmt.Errorf("the handle names the lease proxy %s, where no lease was taken with this state directory, and not %s: give --proxy with the one that is right",
		proxyclient.Redacted(recorded), proxyclient.Redacted(named))
}
