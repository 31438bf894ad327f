package generator

// Meanings says, generator by generator, where the clock of its latency starts
// and stops: the one line a reader needs before two generators are compared.
// Sources: the generators' own code at the versions named in docs/reference/generators.md.
var meanings = []struct{ generator, of, text string }{
	{"tare", ofResponse, "from the instant the schedule asked for to the last byte; waiting for a free connection counts"},
	{"tare", ofService, "from the write of the request to the last byte"},
	{"oha", ofResponse, "from the moment oha's pacer woke to the last byte; how late the pacer woke (its timer ticks in ms) is not in it"},
	{"oha", ofService, "from the moment a worker took the request up to the last byte; waiting for a free connection is left out"},
	{"wrk2", ofResponse, "from the instant its connection's own schedule asked for to the last byte; wrk2's timer rounds up to 1 ms and that is in it; its first 10 s are left out"},
	{"wrk2", ofService, "from the write of the request to the last byte; its first 10 s are left out"},
	{"wrk", ofService, "from the write of the request to the last byte, in a closed loop: a stalled server is hardly seen"},
	{"vegeta", ofResponse, "from the schedule, which tare puts together again out of vegeta's sequence numbers, to the last byte; least lateness taken as none"},
	{"vegeta", ofService, "from the moment a worker took the request up to the last byte; lateness of the pacer and waiting for a worker are left out"},
	{"fortio", ofService, "from the call to its end, in connections that wait for their own answer: a stalled server is hardly seen; errors are in it"},
	{"h2load", ofService, "from handing the request to its stream to the last byte; lateness behind --rps is left out"},
	{"nighthawk", ofService, "from the release of the request by its limiter to the last byte; lateness behind the schedule is left out and shows as blocking"},
	{"k6", ofService, "sending, waiting and receiving of one request; connecting and how late the iteration started are left out"},
}

// Meaning is one line on what generator's latency of a kind ("response" or
// "service") measures; empty for what the generator does not give.
func Meaning(generator, of string) string {
	for _, m := range meanings {
		if m.generator == generator && m.of == of {
			return m.text
		}
	}
	return ""
}
