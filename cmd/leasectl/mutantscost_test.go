package main

// costMutants are bugs of the measures that make commands cheap: steps that are delayed, done in
// parallel, or left out.
var costMutants = []mutant{
	{"a request is sent before signals are heard", "proxyclient/sending.go", "if s.ready == nil {", "if true {",
		"./holder", "TestNothingIsSentBeforeListening", false},
	{"a release writes its handle before signals are heard", "holder/giveback.go", "\t\t<-h.listening // ", "\t\t// ",
		"./holder", "TestNoReleaseIsSentBeforeListening", false},
	{"what was put off is not waited for", "proxyclient/instant.go", "\t\trunning.Wait()\n", "",
		"./proxyclient", "TestAfter", false},
	{"a journal entry says what a bare handle owes", "holder/releaseowed.go", "tx.RequestOnDisk() == tx.RequestID && ", "",
		"./holder", "TestReleaseIsWrittenDownOnce", false},
	{"a string is written without its escapes", "leaseapi/object/object.go", "c == '<' || ", "",
		"./leaseapi/object", "TestEncodedStrings", false},
	{"a command starts before its signals are heard", "supervisor/attempt.go", "\ts.prepared.Wait()\n", "",
		"./supervisor", "TestStartsPrepared", false},
}
