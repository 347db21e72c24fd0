package main

import (
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/leasectl/leasectl/leaseapi"
)

// detectOwner names the job of this process from the variables of known CI systems, else
// user@host. The name contains no pid: it must be the same for every process of a job, since a
// later step gives back leases that an earlier step took. If the system tells the job's URL, the
// name is that URL, so that people who wait for the lease can look at the job that holds it.
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

// ciSystems are tried in this order. Each returns "" if its variables are not set.
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
		// The jobs of a matrix share one name. Each has its own runner, such as "GitHub Actions
		// 12".
		runner := strings.Join(strings.Fields(env("RUNNER_NAME")), "-")
		return join("#", run, join("@", env("GITHUB_JOB"), runner))
	},
	func(env func(string) string) string { return env("CI_JOB_URL") }, // GitLab
	func(env func(string) string) string { // Buildkite
		return join("#", env("BUILDKITE_BUILD_URL"), env("BUILDKITE_JOB_ID"))
	},
	func(env func(string) string) string { // CircleCI. The containers of a parallel job are told apart by their index
		if env("CIRCLE_NODE_TOTAL") == "1" {
			return env("CIRCLE_BUILD_URL")
		}
		return join("#", env("CIRCLE_BUILD_URL"), env("CIRCLE_NODE_INDEX"))
	},
	// Jenkins. Parallel branches of a build are one owner. The agent is not in the name: a build's
	// stages run on different agents, and a later stage must be able to give back a lease.
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

// userName names a user for people: by the name in the system's list of users, else by $USER, else
// by the number, as for the random user of a container. A $USER that is on the list names another
// user, and was left by an image or by a program that changed its user. (If $HOME is set as well,
// package user itself returns $USER for a user that is not on the list.)
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

// join joins the words that are not empty with sep.
func join(sep string, words ...string) string {
	kept := words[:0:0]
	for _, w := range words {
		if w != "" {
			kept = append(kept, w)
		}
	}
	return strings.Join(kept, sep)
}
