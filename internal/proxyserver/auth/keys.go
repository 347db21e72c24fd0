package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// keysFresh is how long keys are used without a look whether the issuer has withdrawn
	// them.
	keysFresh = 10 * time.Minute
	// keysKept is how long keys are used while the issuer does not answer: a night.
	keysKept = 12 * time.Hour
	// fetchEvery is the least time between two fetches, so that nobody makes this server a
	// burden to an issuer by showing it unknown keys.
	fetchEvery = 10 * time.Second
	// mostWaits is how many callers wait for keys at a time, of each issuer. Who shows a made-up key
	// waits, too.
	mostWaits = 100
	// freshWait is how long a caller whose key is known waits for a fetch.
	freshWait = 2 * time.Second

	// mostKeys bounds the keys of an issuer. The large ones have about ten.
	mostKeys = 100
	// leastRSA and mostRSA bound an RSA key, in bits: a smaller one can be broken, and a larger
	// one takes long.
	leastRSA, mostRSA = 2048, 8192
)

// keyring keeps the public keys of an issuer.
type keyring struct {
	fetch func(context.Context) ([]jose.JSONWebKey, error)
	spawn func(func(context.Context)) // runs a fetch in the background
	waits chan struct{}               // has a value for each caller who waits for a fetch

	mu      sync.Mutex // guards what follows
	keys    []jose.JSONWebKey
	at      time.Time     // when keys were asked for; zero: never with success
	tried   time.Time     // when the last fetch began
	err     error         // of the last fetch
	running chan struct{} // closed when the fetch under way has ended; nil: none is

	fetched, failed uint64
}

var (
	errUnknownKey  = errors.New("the issuer has no such key")
	errUnreachable = errors.New("the issuer's keys cannot be had")
	errNewKey      = errors.New("the issuer had no such key some seconds ago, and is not asked again yet")
	errManyWait    = errors.New("too many callers wait for an issuer's keys already")
)

// find returns the keys with an id, which may be empty if there is only one key. It blocks while
// keys are fetched, if that is needed. The error is one of the above, or the cause of ctx's end. It is
// errUnknownKey only if the issuer was asked since find was called: else somebody who shows made-up
// keys would make that of a key that the issuer has only just begun to use.
func (k *keyring) find(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	found, usable := k.withID(id, now)
	if usable && now.Sub(k.at) < keysFresh {
		return found, nil
	}
	if k.running == nil && now.Sub(k.tried) >= fetchEvery {
		k.begin(now)
	}
	if running := k.running; running != nil && !(usable && k.err != nil) {
		k.mu.Unlock()
		err := k.await(ctx, running, usable)
		k.mu.Lock()
		if err != nil {
			return nil, err
		}
		found, usable = k.withID(id, now)
	}
	switch {
	case usable:
		return found, nil
	case k.err != nil:
		return nil, fmt.Errorf("%w: %w", errUnreachable, k.err)
	case id != "" && k.tried.Before(now):
		return nil, errNewKey
	}
	return nil, errUnknownKey
}

// await waits until a fetch has ended. A caller whose key is known waits for freshWait at most, and
// not at all if too many do.
func (k *keyring) await(ctx context.Context, running <-chan struct{}, known bool) error {
	select {
	case k.waits <- struct{}{}:
		defer func() { <-k.waits }()
	default:
		if known {
			return nil
		}
		return errManyWait
	}
	var over <-chan time.Time
	if known {
		over = time.After(freshWait)
	}
	select {
	case <-running:
	case <-over:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// begin starts a fetch. The caller holds k.mu.
func (k *keyring) begin(now time.Time) {
	running := make(chan struct{})
	k.running, k.tried = running, now
	k.spawn(func(ctx context.Context) {
		keys, err := k.fetch(ctx)
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.err = err; err == nil {
			k.keys, k.at = keys, now
			k.fetched++
		} else {
			k.failed++
		}
		k.running = nil
		close(running)
	})
}

// withID returns the keys with an id, or the only key if the id is empty; false if there are none,
// or they are too old. The caller holds k.mu.
func (k *keyring) withID(id string, now time.Time) (found []jose.JSONWebKey, ok bool) {
	for _, key := range k.keys {
		if key.KeyID == id && id != "" || id == "" && len(k.keys) == 1 {
			found = append(found, key)
		}
	}
	return found, len(found) > 0 && now.Sub(k.at) < keysKept
}

// parseKeys reads a JSON Web Key Set (RFC 7517, section 5). It leaves out keys that sign nothing,
// and keys of kinds that it does not know.
func parseKeys(text []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, errors.New("the answer is no JSON Web Key Set")
	}
	if len(set.Keys) > mostKeys {
		return nil, fmt.Errorf("it has %d keys: at most %d are read", len(set.Keys), mostKeys)
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(raw) == nil && signs(key) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("it has no key to check a signature with")
	}
	return keys, nil
}

// signs reports whether tokens may be signed with a key, of which we have the public half.
func signs(key jose.JSONWebKey) bool {
	if key.Use != "" && key.Use != "sig" || !key.IsPublic() || !key.Valid() {
		return false
	}
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		return public.N.BitLen() >= leastRSA && public.N.BitLen() <= mostRSA
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}
