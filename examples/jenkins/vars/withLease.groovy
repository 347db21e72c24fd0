// A step of a shared library: put it into vars/ of the library's repository.
//
//   withLease(type: 'install') { sh './install.sh' }
//
// The agent has leasectl in its PATH, and LEASE_PROXY_SERVER_URL; without it the body runs without a
// lease. If the proxy wants a token, put withCredentials([file(credentialsId: 'lease-token',
// variable: 'LEASECTL_TOKEN_FILE')]) around the step. For a single command, a step is not needed:
//
//   sh 'leasectl exec --type install -- ./install.sh'
//
// Jenkins runs what is in finally when the body has failed or the build was aborted, too. If the
// agent dies, the lease ends with its TTL: longer than the body may take, since nobody renews it.
def call(Map options, Closure body) {
    if (!options.type) {
        error('withLease needs a type, such as withLease(type: \'install\')')
    }
    def variables = [
        "LEASE_HANDLE=${pwd(tmp: true)}/lease-${UUID.randomUUID()}".toString(),
        "OPTION_TYPE=${options.type}".toString(),
        "OPTION_TTL=${options.ttl ?: '2h30m'}".toString(),
        "OPTION_WAIT=${options.wait ?: '4h'}".toString(),
    ]
    withEnv(variables) {
        try {
            sh 'leasectl acquire --type "$OPTION_TYPE" --ttl "$OPTION_TTL" --wait-timeout "$OPTION_WAIT" --handle "$LEASE_HANDLE"'
            body()
        } finally {
            // An acquire that failed left no handle. If no proxy answers, the lease ends with its
            // TTL, which is no reason to fail the build.
            sh 'test ! -e "$LEASE_HANDLE" || leasectl release --handle "$LEASE_HANDLE" || echo "the lease was not given back: it ends with its TTL" >&2'
        }
    }
}
