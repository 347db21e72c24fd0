package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Warning is a remark on a file that is no error, such as that a key has no effect.
type Warning struct {
	File         string
	Line, Column int // from 1; 0: the warning is about the whole file
	Text         string
}

// String returns "file:line:column: text", or "file: text".
func (w Warning) String() string {
	if w.Line == 0 {
		return w.File + ": " + w.Text
	}
	return fmt.Sprintf("%s:%d:%d: %s", w.File, w.Line, w.Column, w.Text)
}

// maxErrors is how many errors of one file are reported: enough to repair it in
// few rounds, and few enough to read.
const maxErrors = 10

// parser reads the nodes of one YAML file, and collects errors and warnings.
type parser struct {
	file     string
	errs     []error
	warnings []Warning
}

func (p *parser) errorf(at *yaml.Node, format string, args ...any) {
	p.errorAt(at.Line, at.Column, format, args...)
}

func (p *parser) errorAt(line, column int, format string, args ...any) {
	if len(p.errs) < maxErrors {
		p.errs = append(p.errs, fmt.Errorf("%s:%d:%d: %w", p.file, line, column, fmt.Errorf(format, args...)))
	}
}

func (p *parser) warn(at *yaml.Node, format string, args ...any) {
	p.warnings = append(p.warnings, Warning{p.file, at.Line, at.Column, fmt.Sprintf(format, args...)})
}

// decode returns the value of the only document in data.
func (p *parser) decode(data []byte) (*yaml.Node, bool) {
	var doc, more yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	err := decoder.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		p.errorAt(1, 1, "the file is empty")
		return nil, false
	case err != nil:
		p.syntaxError(data, err)
		return nil, false
	}
	switch err := decoder.Decode(&more); {
	case err == nil:
		p.errorf(&more, "a second document begins: there must be one")
	case !errors.Is(err, io.EOF):
		p.syntaxError(data, err)
	}
	return doc.Content[0], len(p.errs) == 0
}

// syntaxError reports an error of the YAML parser, such as "yaml: line 3: did not find …".
// The YAML parser names no column, and for a tab sometimes the line before.
func (p *parser) syntaxError(data []byte, err error) {
	line, text := 1, strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		number, what, _ := strings.Cut(rest, ": ")
		if n, err := strconv.Atoi(number); err == nil {
			line, text = n, what
		}
	}
	if strings.Contains(text, "tab character") || strings.Contains(text, "cannot start any token") {
		if line, column, found := tabNear(data, line); found {
			p.errorAt(line, column, "a tab: YAML is indented with spaces")
			return
		}
	}
	p.errorAt(line, 1, "%s", text)
}

// tabNear finds a tab in the indentation of a line or of the next one.
func tabNear(data []byte, line int) (at, column int, found bool) {
	lines := strings.Split(string(data), "\n")
	for i := max(0, line-1); i < min(line+1, len(lines)); i++ {
		indent := len(lines[i]) - len(strings.TrimLeft(lines[i], " \t-"))
		if tab := strings.Index(lines[i][:indent], "\t"); tab >= 0 {
			return i + 1, tab + 1, true
		}
	}
	return 0, 0, false
}

// mapping calls the function of each key of node. Unknown and repeated keys are
// errors.
func (p *parser) mapping(node *yaml.Node, what string, keys map[string]func(key, value *yaml.Node)) {
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
			p.errorf(key, "key %q is not known%s", key.Value, meant(key.Value, keys))
		case first != nil:
			p.errorf(key, "key %q is already in line %d", key.Value, first.Line)
		default:
			seen[key.Value] = key
			f(key, value)
		}
	}
}

// meant suggests the known key that differs from typed only in case, or in dashes and
// underscores: some keys have one, and some the other. It is empty if there is no such key.
func meant(typed string, keys map[string]func(key, value *yaml.Node)) string {
	plain := func(key string) string { return strings.ToLower(strings.ReplaceAll(key, "-", "_")) }
	for key := range keys {
		if plain(key) == plain(typed) {
			return ": did you mean " + key
		}
	}
	return ""
}

// sequence returns the elements of node. An empty list is an error.
func (p *parser) sequence(node *yaml.Node, what string) ([]*yaml.Node, bool) {
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

// resolve returns the node that an alias stands for, or node itself.
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
	case "!!timestamp":
		return "a date"
	}
	return "a string"
}

// text returns a string. An empty one is an error.
func (p *parser) text(what string, value *yaml.Node) string {
	at, value := value, resolve(value)
	if value.Kind != yaml.ScalarNode || value.Tag != "!!str" {
		p.errorf(at, "%s is %s, not a string; quotes make it one", what, kindOf(value))
		return ""
	}
	if value.Value == "" {
		p.errorf(at, "%s is empty", what)
	}
	return value.Value
}

func (p *parser) number(key, value *yaml.Node, least int) int {
	at, value := value, resolve(value)
	var n int
	if value.Kind != yaml.ScalarNode || value.Tag != "!!int" || value.Decode(&n) != nil {
		p.errorf(at, "%s is not a whole number", key.Value)
		return 0
	}
	if n < least {
		p.errorf(at, "%s %d is less than %d", key.Value, n, least)
	}
	return n
}

func (p *parser) bool(key, value *yaml.Node) (is bool) {
	at, value := value, resolve(value)
	if value.Kind != yaml.ScalarNode || value.Tag != "!!bool" || value.Decode(&is) != nil {
		p.errorf(at, "%s is neither true nor false", key.Value)
	}
	return is
}

func (p *parser) duration(key, value *yaml.Node) time.Duration {
	at, value := value, resolve(value)
	d, err := time.ParseDuration(value.Value)
	switch {
	case value.Kind != yaml.ScalarNode || err != nil:
		p.errorf(at, "%s is not a duration such as 90s, 30m or 4h", key.Value)
	case d <= 0:
		p.errorf(at, "%s %v is not positive", key.Value, d)
	}
	return d
}
