// Package test uses everything in examples/ as it will be used: scripts by bash and sh, the
// action by node, the step of Jenkins by Groovy, the unit and the manifests as arguments of a real leasectl serve, alerts and
// dashboard by Prometheus.
//
// It is a module of its own, so that the product does not depend on Kubernetes' types. The tests
// skip nothing: a tool that is not installed is a failure that names its package. They need Linux.
//
//	make test-examples
package test
