package main

import (
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/leasectl/leasectl/leaseapi"
)

// detectOwner names the job that this process belongs to, by the variables of
// the CI systems we know, else user@host. It is the same for every process of
// a job, since a later step gives back what an earlier one took: never a pid.
// Where the system gives the job's address, that is the name: people who
// wait for the lease want to look at the job that holds it.
func detectOwner(env func(string) string) string {
	if owner := ciOwner(env); owner != "" {
		return owner
	}
	return leaseapi.Clip(userAtHost(os.Getuid(), env), leaseapi.MaxOwner)
}

// ciOwner names the job by the variables of a CI system; "" if there are none.
func ciOwner(env func(string) string) string {
	for _, system := range ciSystems {
		if name := system(env); name != "" {
			return leaseapi.Clip(name, leaseapi.MaxOwner)
		}
	}
	return ""
}

// ciSystems are asked in this order; each returns "" if its variables are not set.
var ciSystems = []func(env func(string) string) string{
	func(env func(string) string) string { // Prow
		if env("PROW_JOB_ID") == "" {
			return ""
		}
		return join("/", env("JOB_NAME"), env("BUILD_ID"), env("PROW_JOB_ID"))
	},
	func(env func(string) string) string { // GitHub Actions
		if env("GITHUB_RUN_ID") == "" || env("GITHUB_REPOSITORY") == "" {
			return ""
		}
		run := join("/", env("GITHUB_SERVER_URL"), env("GITHUB_REPOSITORY"), "actions/runs", env("GITHUB_RUN_ID"))
		if attempt := env("GITHUB_RUN_ATTEMPT"); attempt != "" {
			run += "/attempts/" + attempt
		}
		// The legs of a matrix have one name, and a runner each, such as "GitHub Actions 12".
		runner := strings.Join(strings.Fields(env("RUNNER_NAME")), "-")
		return join("#", run, join("@", env("GITHUB_JOB"), runner))
	},
	func(env func(string) string) string { return env("CI_JOB_URL") }, // GitLab
	func(env func(string) string) string { // Buildkite
		return join("#", env("BUILDKITE_BUILD_URL"), env("BUILDKITE_JOB_ID"))
	},
	// Jenkins. Branches that run at once are one owner: the stages of a build go from agent to
	// agent, so a variable of the agent would keep a later stage from giving back.
	func(env func(string) string) string {
		if env("JENKINS_URL") == "" {
			return ""
		}
		return env("BUILD_URL")
	},
}

func userAtHost(uid int, env func(string) string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return userName(uid, env) + "@" + host
}

// userName names a user for people: by its name in the system's list of users, else by
// $USER, else by its number, as of the random user of a container. A $USER that is on
// the list is somebody else: a program that changed its user, or an image, left it.
// (If $HOME is set as well, package user takes $USER for a name of ours in any case.)
func userName(uid int, env func(string) string) string {
	number := strconv.Itoa(uid)
	if u, err := user.LookupId(number); err == nil {
		return u.Username
	}
	if name := env("USER"); name != "" {
		if _, err := user.Lookup(name); err != nil {
			return name
		}
	}
	return "uid-" + number
}

// join joins the words that are not empty.
func join(sep string, words ...string) string {
	kept := words[:0:0]
	for _, w := range words {
		if w != "" {
			kept = append(kept, w)
		}
	}
	return strings.Join(kept, sep)
}
