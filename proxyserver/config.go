package proxyserver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/leasectl/leasectl/pool"
)

// Config is what a configuration file says.
type Config struct {
	Pools []pool.Config
}

// Warning is something in a configuration file that has no effect.
type Warning struct {
	File         string
	Line, Column int // from 1
	Text         string
}

// String returns "file:line:column: text".
func (w Warning) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", w.File, w.Line, w.Column, w.Text)
}

// maxConfigErrors is how many errors of one file are reported: enough to repair
// it in few rounds, and to be read.
const maxConfigErrors = 10

// ParseConfig reads a configuration in the YAML that Boskos deployments have.
// name is the file's, for errors and warnings.
//
//	resources:
//	- type: aws-quota-slice     # what requests ask for
//	  state: free               # without meaning here
//	  names: [us-east-1, us-west-2]
//	- type: gcp-quota-slice
//	  min-count: 5              # unnamed: gcp-quota-slice-0 and so on,
//	  max-count: 10             # as many as the greater count
//	  default_ttl: 4h           # of a request that names none
//	  max_ttl: 12h              # the most a request may name
//	  max_waiters: 10000
//	  pace: auto                # the least time between two grants, such as 24s;
//	  hold: 20m                 # auto is how long a lease is held / the number of names
//
// Keys that Boskos knows and this server does not need are warned of. The error
// is a join of up to ten that say "name:line:column: " and what is wrong there;
// then there is no Config.
func ParseConfig(name string, data []byte) (Config, []Warning, error) {
	p := &configParser{file: name, names: make(map[string]*yaml.Node), types: make(map[string]*yaml.Node)}
	if root, ok := p.decode(data); ok {
		p.parseFile(root)
	}
	if len(p.errs) > 0 {
		return Config{}, p.warnings, errors.Join(p.errs...)
	}
	return Config{Pools: p.pools}, p.warnings, nil
}

type configParser struct {
	file     string
	errs     []error
	warnings []Warning
	pools    []pool.Config
	types    map[string]*yaml.Node // where each type stands
	names    map[string]*yaml.Node // where each name stands, or the type it is made of
}

func (p *configParser) errorf(at *yaml.Node, format string, args ...any) {
	p.errorAt(at.Line, at.Column, format, args...)
}

func (p *configParser) errorAt(line, column int, format string, args ...any) {
	if len(p.errs) < maxConfigErrors {
		p.errs = append(p.errs, fmt.Errorf("%s:%d:%d: %w", p.file, line, column, fmt.Errorf(format, args...)))
	}
}

// decode returns the value of the only document in data.
func (p *configParser) decode(data []byte) (*yaml.Node, bool) {
	var doc, more yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	err := decoder.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		p.errorAt(1, 1, "the file is empty")
		return nil, false
	case err != nil:
		p.syntaxError(err)
		return nil, false
	}
	switch err := decoder.Decode(&more); {
	case err == nil:
		p.errorf(&more, "a second document begins: there must be one")
	case !errors.Is(err, io.EOF):
		p.syntaxError(err)
	}
	return doc.Content[0], len(p.errs) == 0
}

// syntaxError reports what the YAML parser says, "yaml: line 3: did not find
// …" for one; it knows no columns.
func (p *configParser) syntaxError(err error) {
	line, text := 1, strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		number, what, _ := strings.Cut(rest, ": ")
		if n, err := strconv.Atoi(number); err == nil {
			line, text = n, what
		}
	}
	p.errorAt(line, 1, "%s", text)
}

func (p *configParser) parseFile(root *yaml.Node) {
	var resources *yaml.Node
	p.mapping(root, "the file", map[string]func(key, value *yaml.Node){
		"resources": func(_, value *yaml.Node) { resources = value },
	})
	if resources == nil {
		if len(p.errs) == 0 {
			p.errorf(root, "there is no resources")
		}
		return
	}
	entries, ok := p.sequence(resources, "resources")
	if !ok {
		return
	}
	for _, entry := range entries {
		if len(p.errs) >= maxConfigErrors {
			return
		}
		p.parseEntry(entry)
	}
}

// mapping calls the function of each key of node. Unknown and repeated keys are
// errors.
func (p *configParser) mapping(node *yaml.Node, what string, keys map[string]func(key, value *yaml.Node)) {
	at := node
	if node = resolve(node); node.Kind != yaml.MappingNode {
		p.errorf(at, "%s is %s, not a mapping", what, kindOf(node))
		return
	}
	seen := make(map[string]*yaml.Node)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		f := keys[key.Value]
		switch first := seen[key.Value]; {
		case f == nil || key.Kind != yaml.ScalarNode:
			p.errorf(key, "key %q is not known", key.Value)
		case first != nil:
			p.errorf(key, "key %q is already in line %d", key.Value, first.Line)
		default:
			seen[key.Value] = key
			f(key, value)
		}
	}
}

// sequence returns the elements of node, of which there must be some.
func (p *configParser) sequence(node *yaml.Node, what string) ([]*yaml.Node, bool) {
	at := node
	if node = resolve(node); node.Kind != yaml.SequenceNode {
		p.errorf(at, "%s is %s, not a list", what, kindOf(node))
		return nil, false
	}
	if len(node.Content) == 0 {
		p.errorf(at, "%s is empty", what)
		return nil, false
	}
	return node.Content, true
}

// resolve returns what an alias stands for.
func resolve(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// kindOf says what node is, for an error.
func kindOf(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch node.Tag {
	case "!!null":
		return "empty"
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "a boolean"
	}
	return "a string"
}
