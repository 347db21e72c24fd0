package test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// runner runs the action as GitHub's runner does: with the inputs and the files in
// variables, and the state of main in those of post.
type runner struct {
	*job
	action  githubAction
	inputs  map[string]string
	outputs map[string]string
	state   map[string]string

	full bool            // nothing can be written to GITHUB_OUTPUT
	ends map[string]bool // delimiters that were used: none can be guessed
}

func newRunner(t *testing.T, inputs map[string]string) *runner {
	t.Helper()
	r := &runner{job: newJob(t), action: readAction(t), inputs: inputs, outputs: make(map[string]string), state: make(map[string]string), ends: make(map[string]bool)}
	temp := filepath.Join(r.dir, "temp")
	if err := os.Mkdir(temp, 0o755); err != nil {
		t.Fatal(err)
	}
	r.env = append(r.env, "RUNNER_TEMP="+temp, "GITHUB_REPOSITORY=a/b", "GITHUB_RUN_ID=7", "GITHUB_JOB=install", "GITHUB_SERVER_URL=https://git.example")
	return r
}

// begin starts a script of the action. What it writes to the runner's files is read by finish.
func (r *runner) begin(script string) *run {
	r.t.Helper()
	var env []string
	for name, in := range r.action.Inputs {
		value, given := r.inputs[name]
		if !given {
			value = in.Default
		}
		env = append(env, "INPUT_"+strings.ToUpper(strings.ReplaceAll(name, " ", "_"))+"="+value)
	}
	for _, file := range []string{"GITHUB_OUTPUT", "GITHUB_STATE"} {
		env = append(env, file+"="+write(r.t, filepath.Join(r.dir, file), ""))
	}
	if r.full {
		env = append(env, "GITHUB_OUTPUT=/dev/full")
	}
	for name, value := range r.state {
		env = append(env, "STATE_"+name+"="+value)
	}
	path, err := filepath.Abs(filepath.Join("../github-action", script))
	if err != nil {
		r.t.Fatal(err)
	}
	return r.start(env, "node", path)
}

// finish waits for the exit code of a script, and returns what it printed.
func (r *runner) finish(script *run, want int) string {
	r.t.Helper()
	printed := script.exits(want)
	for file, values := range map[string]map[string]string{"GITHUB_OUTPUT": r.outputs, "GITHUB_STATE": r.state} {
		text, err := os.ReadFile(filepath.Join(r.dir, file))
		if err != nil {
			r.t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		for i := 0; i < len(lines); i++ {
			name, delimiter, ok := strings.Cut(lines[i], "<<")
			if !ok {
				continue
			}
			if r.ends[delimiter] {
				r.t.Errorf("%s ends in %s, which has ended another value", name, delimiter)
			}
			r.ends[delimiter] = true
			length := slices.Index(lines[i+1:], delimiter)
			if length < 0 {
				r.t.Fatalf("%s does not end in\n%s", name, text)
			}
			values[name] = strings.Join(lines[i+1:i+1+length], "\n")
			i += length + 1
		}
	}
	return printed
}

func (r *runner) main(want int) string {
	r.t.Helper()
	return r.finish(r.begin(r.action.Runs.Main), want)
}

// post runs it and checks that nothing of the action is left on the machine.
func (r *runner) post() string {
	r.t.Helper()
	printed := r.finish(r.begin(r.action.Runs.Post), 0)
	if left, _ := filepath.Glob(filepath.Join(r.dir, "temp/*")); len(left) > 0 && !strings.Contains(printed, "::warning::") {
		r.t.Errorf("post left %q", left)
	}
	return printed
}
