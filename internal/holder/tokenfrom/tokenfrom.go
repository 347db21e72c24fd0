// Package tokenfrom gets the tokens that a job's surroundings give it: GitHub's runner, or any
// command. So no secret has to be copied into the job.
//
// A token stands in memory only: in no argument, no variable, no file and no message of ours. Only
// what gives it may do otherwise.
package tokenfrom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/process"
	"github.com/leasectl/leasectl/proxyclient"
)

// The variables in which GitHub's runner says where tokens are. A workflow has them with the
// permission id-token: write.
const (
	GitHubURL   = "ACTIONS_ID_TOKEN_REQUEST_URL"
	GitHubToken = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
)

// Variable is the variable of the flag that says where tokens come from. A command that gives
// tokens does not get it: a leasectl in the command would call the command again.
const Variable = "LEASECTL_TOKEN_FROM"

// DefaultAudience is what a token is for that names no other audience.
const DefaultAudience = "leasectl"

// mostToken bounds what is read for a token, in bytes.
const mostToken = 64 << 10

// New returns the source of tokens that from means: github or github:AUDIENCE is GitHub's runner,
// and any other text is a command for sh, which prints a token.
func New(from string) (*proxyclient.TokenSource, error) {
	name := "--token-from " + from
	audience, github := audienceOf(from)
	if !github {
		return proxyclient.NewTokenSource("the command of --token-from", command(from)), nil
	}
	ask, err := runner(os.Getenv(GitHubURL), os.Getenv(GitHubToken), audience)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return proxyclient.NewTokenSource(name, ask), nil
}

// IsGitHub tells whether from means GitHub's runner.
func IsGitHub(from string) bool { _, is := audienceOf(from); return is }

func audienceOf(from string) (audience string, github bool) {
	if from == "github" {
		return DefaultAudience, true
	}
	audience, github = strings.CutPrefix(from, "github:")
	return audience, github && audience != "" && !strings.ContainsAny(audience, " \t\n")
}

// Exit codes of a shell that could not run its command.
const (
	notExecutable = 126
	notFound      = 127
)

// command returns a function that runs a command in this program's working directory.
func command(text string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		var env []string
		for _, v := range os.Environ() {
			if !strings.HasPrefix(v, Variable+"=") {
				env = append(env, v)
			}
		}
		token, err := process.Output(ctx, []string{"/bin/sh", "-c", text}, env, mostToken)
		if exit, ok := errors.AsType[*process.ExitError](err); ok && (exit.Code() == notExecutable || exit.Code() == notFound) {
			err = proxyclient.Hopeless(err)
		}
		return string(token), err
	}
}

const (
	// tries is how often the runner is asked before it has failed; triesPause is between two.
	tries      = 3
	triesPause = time.Second
	// askTime bounds one question, which GitHub answers within a second.
	askTime = 8 * time.Second
)

// runner returns a function that asks GitHub's runner for a token for an audience.
func runner(address, bearer, audience string) (func(context.Context) (string, error), error) {
	if address == "" || bearer == "" {
		return nil, fmt.Errorf("$%s and $%s are not set: give the job the permission id-token: write", GitHubURL, GitHubToken)
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("$%s is no URL", GitHubURL)
	}
	q := u.Query()
	q.Set("audience", audience)
	u.RawQuery = q.Encode()
	client := &http.Client{Timeout: askTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return func(ctx context.Context) (token string, err error) {
		for try := range tries {
			if try > 0 && proxyclient.Sleep(ctx, triesPause) != nil {
				break
			}
			var again bool
			if token, again, err = askRunner(ctx, client, u.String(), bearer); err == nil {
				break
			}
			if !again {
				return "", proxyclient.Hopeless(err)
			}
		}
		return token, err
	}, nil
}

// askRunner asks once. again says that an error may pass.
func askRunner(ctx context.Context, client *http.Client, address, bearer string) (token string, again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", false, err
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	req.Header.Set("Accept", "application/json; api-version=2.0")
	resp, err := client.Do(req)
	if err != nil {
		return "", true, withoutURL(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, mostToken))
	switch {
	case resp.StatusCode/100 == 5 || resp.StatusCode == http.StatusTooManyRequests:
		return "", true, fmt.Errorf("the runner answered %s", resp.Status)
	case resp.StatusCode != http.StatusOK:
		return "", false, fmt.Errorf("the runner answered %s", resp.Status)
	case err != nil:
		return "", true, err
	}
	var answer struct {
		Value string `json:"value"`
	}
	if json.Unmarshal(text, &answer) != nil || answer.Value == "" {
		return "", false, errors.New("the runner's answer has no token")
	}
	return answer.Value, false, nil
}

// withoutURL removes the address from an error of net/http: it may have secrets in its query.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
