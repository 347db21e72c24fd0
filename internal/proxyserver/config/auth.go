package config

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/leasectl/leasectl/internal/proxyserver/auth"
	"github.com/leasectl/leasectl/leaseapi"
)

// ParseAuth reads who may ask from YAML. name is the name of the file, for errors; secrets are the
// contents of the files that it names, see [AuthFrom].
//
//	tokens:
//	- name: ci                     # the caller: what it acquires is bound to it
//	  sha256: 9f86d081…            # of the token, or
//	  secret_file: ci.token        # the file that has the token
//	  role: job                    # or read, or admin
//	  pools: [install, "aws-*"]    # types that it may acquire and see; all if not set
//	  max_priority: 10             # the most that it may ask for; 0 if not set
//	  overcommit: true             # it may ask for leases beyond the limit, as an admin may; false if not set
//	  max_leases: 50               # that it holds and waits for; no bound if not set
//	  max_waiters: 20              # of its requests; no bound if not set
//	issuers:
//	- issuer: https://token.actions.githubusercontent.com
//	  audience: leasectl           # that the tokens must be for
//	  ca: ca.pem                   # authorities that vouch for the issuer, instead of the system's
//	  token_file: token            # has the token to show to hosts that ca vouches for, as Kubernetes wants
//	  rules:                       # the first that matches counts
//	  - claims: {repository: "acme/*", ref: refs/heads/main}
//	    name: "{repository}"
//	    pools: [install]           # role, max_priority and so on, too
//
// Paths are relative to the directory of the file. The error joins up to ten errors of the form
// "name:line:column: text", and never shows a token.
func ParseAuth(name string, data []byte, secrets map[string][]byte) (auth.Config, error) {
	p := &authParser{parser: parser{file: name}, secrets: secrets, sums: make(map[auth.Sum]int)}
	root, ok := p.decode(data)
	if !ok {
		return auth.Config{}, errors.Join(p.errs...)
	}
	p.mapping(root, "the file", map[string]func(key, value *yaml.Node){
		"tokens":  func(_, value *yaml.Node) { p.each(value, "tokens", p.token) },
		"issuers": func(_, value *yaml.Node) { p.each(value, "issuers", p.issuer) },
	})
	if len(p.errs) == 0 && len(p.config.Tokens)+len(p.config.Issuers) == 0 {
		p.errorf(root, "there are neither tokens nor issuers: nobody could get in")
	}
	return p.config, errors.Join(p.errs...)
}

type authParser struct {
	parser
	secrets map[string][]byte
	config  auth.Config
	sums    map[auth.Sum]int // line of each token
}

// each parses the elements of a list.
func (p *authParser) each(list *yaml.Node, what string, parse func(*yaml.Node)) {
	entries, _ := p.sequence(list, what)
	for _, entry := range entries {
		if len(p.errs) < maxErrors {
			parse(entry)
		}
	}
}

// rights returns the keys of rights, which tokens and rules have.
func (p *authParser) rights(to *auth.Rights) map[string]func(key, value *yaml.Node) {
	return map[string]func(key, value *yaml.Node){
		"role": func(_, value *yaml.Node) {
			switch role := p.text("role", value); role {
			case auth.RoleJob.String():
			case string(auth.RoleRead), string(auth.RoleAdmin):
				to.Role = auth.Role(role)
			default:
				p.errorf(value, "role %q: want job, read or admin", leaseapi.Shorten(role))
			}
		},
		"pools": func(_, value *yaml.Node) {
			p.each(value, "pools", func(entry *yaml.Node) { to.Pools = append(to.Pools, p.text("a pool", entry)) })
		},
		"max_priority": func(key, value *yaml.Node) {
			if to.MaxPriority = p.number(key, value, 0); to.MaxPriority > leaseapi.MaxPriority {
				p.errorf(value, "max_priority %d is more than %d", to.MaxPriority, leaseapi.MaxPriority)
			}
		},
		"overcommit":  func(key, value *yaml.Node) { to.Overcommit = p.bool(key, value) },
		"max_leases":  func(key, value *yaml.Node) { to.Share.Leases = p.number(key, value, 1) },
		"max_waiters": func(key, value *yaml.Node) { to.Share.Waiters = p.number(key, value, 1) },
	}
}

func (p *authParser) token(at *yaml.Node) {
	var t auth.Token
	shown := 0
	sum := func(value *yaml.Node, s auth.Sum, err error) {
		if shown++; err != nil {
			p.errorf(value, "%w", err)
			return
		}
		t.Sum = s
		if line, twice := p.sums[s]; twice {
			p.errorf(value, "the token is already in line %d", line)
		}
		p.sums[s] = value.Line
	}
	keys := p.rights(&t.Rights)
	keys["name"] = func(_, value *yaml.Node) {
		t.Name = p.text("name", value)
		if err := auth.CheckName(t.Name); err != nil {
			p.errorf(value, "%w", err)
		}
	}
	keys["sha256"] = func(_, value *yaml.Node) {
		s, err := auth.ParseSum(resolve(value).Value) // 64 digits may look like a number
		sum(value, s, err)
	}
	keys["secret_file"] = func(_, value *yaml.Node) {
		file := p.path("secret_file", value)
		s, err := auth.SumOf(string(bytes.TrimSpace(p.secrets[file])))
		if err != nil {
			err = fmt.Errorf("%s: %w", file, err)
		}
		sum(value, s, err)
	}
	before := len(p.errs)
	p.mapping(at, "a token", keys)
	switch {
	case len(p.errs) > before:
	case t.Name == "":
		p.errorf(at, "the token has no name")
	case shown != 1:
		p.errorf(at, "token %q: want one of sha256 and secret_file", t.Name)
	default:
		p.config.Tokens = append(p.config.Tokens, t)
	}
}

func (p *authParser) issuer(at *yaml.Node) {
	var i auth.Issuer
	before := len(p.errs)
	p.mapping(at, "an issuer", map[string]func(key, value *yaml.Node){
		"issuer": func(_, value *yaml.Node) {
			i.URL = p.text("issuer", value)
			if err := auth.CheckIssuer(i.URL); i.URL != "" && err != nil {
				p.errorf(value, "issuer %q: %w", leaseapi.Shorten(i.URL), err)
			}
			if slices.ContainsFunc(p.config.Issuers, func(other auth.Issuer) bool { return other.URL == i.URL }) {
				p.errorf(value, "issuer %q is already there: give it one list of rules", i.URL)
			}
		},
		"audience":   func(_, value *yaml.Node) { i.Audience = p.text("audience", value) },
		"ca":         func(_, value *yaml.Node) { i.CAFile = p.path("ca", value) },
		"token_file": func(_, value *yaml.Node) { i.TokenFile = p.path("token_file", value) },
		"rules": func(_, value *yaml.Node) {
			p.each(value, "rules", func(entry *yaml.Node) { i.Rules = append(i.Rules, p.rule(entry)) })
		},
	})
	switch {
	case len(p.errs) > before:
	case i.URL == "":
		p.errorf(at, "issuer is missing")
	case i.Audience == "":
		p.errorf(at, "issuer %q has no audience: a token that was made for somebody else would do", i.URL)
	case i.Rules == nil:
		p.errorf(at, "issuer %q has no rules: it would let nobody in", i.URL)
	case i.TokenFile != "" && i.CAFile == "":
		p.errorf(at, "issuer %q has a token_file and no ca: the token would be shown to whatever host has the issuer's keys", i.URL)
	default:
		p.config.Issuers = append(p.config.Issuers, i)
	}
}

func (p *authParser) rule(at *yaml.Node) auth.Rule {
	r := auth.Rule{Claims: make(map[string]string)}
	keys := p.rights(&r.Rights)
	keys["claims"] = func(_, value *yaml.Node) { p.claims(value, r.Claims) }
	keys["name"] = func(_, value *yaml.Node) {
		r.Name = auth.Template(p.text("name", value))
		if err := r.Name.Check(); r.Name != "" && err != nil {
			p.errorf(value, "%w", err)
		}
	}
	before := len(p.errs)
	p.mapping(at, "a rule", keys)
	switch {
	case len(p.errs) > before:
	case len(r.Claims) == 0:
		p.errorf(at, `the rule has no claims: all that the issuer vouches for could get in; if that is meant, claims: {sub: "*"}`)
	case r.Name == "":
		p.errorf(at, `the rule has no name, such as "{sub}"`)
	}
	return r
}

// claims reads the globs of a rule, by claim. Any claim may be named.
func (p *authParser) claims(node *yaml.Node, to map[string]string) {
	at := node
	if node = resolve(node); node.Kind != yaml.MappingNode {
		p.errorf(at, "claims is %s, not a mapping", kindOf(node))
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		claim := p.text("a claim", node.Content[i])
		if _, twice := to[claim]; twice {
			p.errorf(node.Content[i], "claim %q is there twice", claim)
		}
		to[claim] = p.text("claim "+claim, node.Content[i+1])
	}
}

// path returns the file that value names.
func (p *authParser) path(what string, value *yaml.Node) string {
	return besides(p.file, p.text(what, value))
}

// besides returns a path that is relative to the directory of file.
func besides(file, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(file), path)
}

// secretFiles returns the files of secrets that a file names, as far as it can be understood.
func secretFiles(file string, text []byte) (files []string) {
	var of struct {
		Tokens []struct {
			SecretFile yaml.Node `yaml:"secret_file"`
		}
	}
	if err := yaml.Unmarshal(text, &of); err != nil && !errors.As(err, new(*yaml.TypeError)) {
		return nil
	}
	for _, t := range of.Tokens {
		if path := resolve(&t.SecretFile).Value; strings.TrimSpace(path) != "" {
			if path = besides(file, path); !slices.Contains(files, path) {
				files = append(files, path)
			}
		}
	}
	return files
}
