package generator

// meanings defines, for each generator, where the clock of its latency starts and
// stops. Latencies with different definitions are not comparable.
// Sources: the generators' code at the versions in docs/reference/generators.md.
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

// Meaning returns one line on what a generator's latency of a kind ("response" or
// "service") measures. It is empty if the generator does not report that kind.
func Meaning(generator, of string) string {
	for _, m := range meanings {
		if m.generator == generator && m.of == of {
			return m.text
		}
	}
	return ""
}
