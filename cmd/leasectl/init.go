package main

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/internal/proxyserver/starter"
)

func newInitCommand(a *app) *cobra.Command {
	var hosts []string
	cmd := &cobra.Command{
		Use:   "init DIR",
		Short: "make the files of a first server: pools, tokens, a certificate",
		Long: `Init makes what serve needs to serve other machines, in DIR: pools.yaml with the
pools of --pool (install=4 unless given), auth.yaml, a fresh secret for jobs, one
for operators and one for monitoring, and a certificate for --host, signed by an
authority of its own. All have mode 0600. It prints the line that serves, and the
lines that a job needs, with copies of jobs.token and ca.crt.

A file that is there stays as it is. So init again makes what was removed: another
secret, or, without tls.crt and tls.key, another certificate of the same
authority. The certificate lasts for 825 days, the authority for ten years. Only
init needs ca.key: keep it elsewhere if you like. If DIR has a certificate of
another authority, init makes no authority, and names none to jobs.`,
		Example: `  leasectl init ./leases --host leases.example --pool install=4`,
		Args:    oneArg("a directory", "./leases"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := a.init(args[0], hosts); err != nil {
				return fmt.Errorf("init: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().Var(hostsValue(&hosts), "host", "names or IP addresses, separated by commas, under which clients reach the server (default: this machine's name)")
	return cmd
}

// init makes the files of a server in dir, and prints what uses them.
func (a *app) init(dir string, hosts []string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	o := starter.Options{Hosts: hosts}
	for _, p := range a.proxy.pools {
		o.Pools = append(o.Pools, starter.Pool{Type: p.Type, Capacity: p.Capacity})
	}
	if o.Pools == nil {
		o.Pools = []starter.Pool{{Type: "install", Capacity: 4}}
	}
	made, err := starter.Write(dir, o)
	if err != nil {
		return err
	}
	if a.proxy.poolsGiven && !slices.Contains(made.Made, starter.Pools) {
		a.Notef("init: %s was there and stays as it is: write the pools into it", filepath.Join(dir, starter.Pools))
	}
	_, port, err := net.SplitHostPort(defaultListen)
	if err != nil {
		return err
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	serve := []string{"leasectl", "serve", "--listen", ":" + port, "--config", in(starter.Pools), "--auth", in(starter.Auth),
		"--tls-cert", in(starter.Certificate), "--tls-key", in(starter.Key), "--data", in("data")}
	job := [][2]string{{proxyVariable, "https://" + net.JoinHostPort(made.Host, port)}, {"LEASECTL_TOKEN_FILE", in(starter.JobsToken)}}
	if made.OwnAuthority {
		job = append(job, [2]string{"LEASECTL_CA", in(starter.Authority)})
	}
	if a.output == "json" {
		variables := make(map[string]string)
		for _, v := range job {
			variables[v[0]] = v[1]
		}
		return a.printJSON(struct {
			Made  []string          `json:"made"`
			Serve []string          `json:"serve"`
			Job   map[string]string `json:"job"`
		}{emptyNotNull(made.Made), serve, variables})
	}
	for i, word := range serve {
		serve[i] = shellWord(word)
	}
	lines := []string{"# the server", strings.Join(serve, " "), "# a job"}
	for _, v := range job {
		lines = append(lines, "export "+v[0]+"="+shellWord(v[1]))
	}
	return a.printLines(lines)
}

// shellWord quotes a word for sh, if it needs that.
func shellWord(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !strings.ContainsRune(plain, r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
