// Package test uses everything in examples/ as it will be used: scripts by bash and sh, the
// action by node, the step of Jenkins by Groovy, the unit and the manifests as arguments of a real leasectl serve, alerts and
// dashboard by Prometheus.
//
// So is the recipe with Terraform, of which no distribution has a package: Terraform and a provider are
// built from their Go modules, once, into the user's cache directory, in about two minutes.
//
// It is a module of its own, so that the product does not depend on Kubernetes' types. A tool that is
// not installed is a failure that names its package. Only Terraform is skipped where it cannot be
// built, unless CI is true. The tests need Linux.
//
//	make test-examples
package test
