// jenkins.groovy STEP TYPE COMMAND… calls a step of a shared library as a pipeline does, with
// Jenkins' steps that it needs: each COMMAND is an sh of its body.
def variables = [:]
def binding = new Binding()
binding.error = { String message -> throw new RuntimeException(message) }
binding.pwd = { Map options -> new File('.').canonicalPath }
binding.withEnv = { List more, Closure body ->
    def before = new HashMap(variables)
    more.each { def (name, value) = it.split('=', 2) as List; variables[name] = value }
    try { body() } finally { variables.clear(); variables.putAll(before) }
}
binding.sh = { String script ->
    def process = new ProcessBuilder('sh', '-xe', '-c', script).inheritIO()
    process.environment().putAll(variables)
    def code = process.start().waitFor()
    if (code != 0) throw new RuntimeException("script returned exit code ${code}")
}
def step = new GroovyShell(binding).parse(new File(args[0]))
try {
    step.call(type: args[1]) { args.drop(2).each { binding.getVariable('sh').call(it) } }
} catch (RuntimeException e) {
    println e.message
    System.exit(1)
}
