package generator

// meanings defines, for each generator, where the clock of its latency starts and
// stops. Latencies with different definitions are not comparable.
// Sources: the generators' code at the versions in docs/reference/generators.md.
var meanings = []struct{ generator, of, text string }{
	{"tare", ofResponse, "from the scheduled start to the last byte; waiting for a free connection counts"},
	{"tare", ofService, "from the write of the request to the last byte"},
	{"oha", ofResponse, "from the wake-up of oha's pacer to the last byte; excludes the pacer's lateness (its timer has a resolution of 1 ms)"},
	{"oha", ofService, "from a worker's start of the request to the last byte; excludes waiting for a free connection"},
	{"wrk2", ofResponse, "from the scheduled start of its connection to the last byte; includes the rounding of wrk2's timer, up to 1 ms; excludes the first 10 s"},
	{"wrk2", ofService, "from the write of the request to the last byte; excludes the first 10 s"},
	{"wrk", ofService, "from the write of the request to the last byte, in a closed loop: coordinated omission hides a stalled server"},
	{"vegeta", ofResponse, "from the scheduled start, computed from vegeta's sequence numbers, to the last byte; the smallest lateness counts as 0"},
	{"vegeta", ofService, "from a worker's start of the request to the last byte; excludes the pacer's lateness and waiting for a worker"},
	{"fortio", ofService, "from the call to its end, in a closed loop per connection: coordinated omission hides a stalled server; includes errors"},
	{"k6", ofService, "sending, waiting and receiving of one request; excludes connecting and the lateness of the iteration"},
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
