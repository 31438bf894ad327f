package experiment_test

import (
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/test/must"
)

func TestWebSocketOfExperiments(t *testing.T) {
	k := known
	k.Protocols = app.Protocols()
	text := header + "factors: {mesh: [none], protocol: [http1, websocket]}\nload: {webSocket: {answer: message, messages: 5, message: 'base64:Cv8='}}\n"
	e := must.Get(experiment.Parse("x.yaml", []byte(text), k))(t)
	if w := e.Load.WebSocket; w != (experiment.WebSocket{Answer: "message", Messages: 5, Message: "\n\xff"}) {
		t.Errorf("%+v", w)
	}
	sameAfterRendering(t, e, k)
	for text, want := range map[string]string{
		strings.Replace(text, "http1, websocket", "http1", 1):                                       "x.yaml:5:19: load.webSocket: no load has protocol websocket",
		strings.Replace(text, "answer: message", "answer: echoes", 1):                               `load.webSocket.answer: unknown answer "echoes"`,
		strings.Replace(text, "answer: message", "answer: pong", 1):                                 "load.webSocket.messages: answer pong is one message",
		strings.Replace(text, "messages: 5", "messages: 0", 1):                                      "load.webSocket.messages: 0 is not between 1 and 1000000",
		strings.Replace(text, "websocket]", "websocket], requestSize: [5]", 1):                      "factors.requestSize: load.webSocket.message has the message",
		text + "platform: {kind: kubernetes}\n":                                                     "factors.protocol: protocol websocket is for this machine, and the platform is kubernetes",
		strings.Replace(text, "load: {", "load: {checks: {status: [200]}, ", 1):                     "load.checks.status: protocol websocket does not support checks of the status",
		text + "application: {services: [{name: a, calls: [b]}, {name: b, protocol: websocket}]}\n": "b uses websocket, and services call by HTTP or gRPC",
	} {
		must.Fail(t, must.Err(experiment.Parse("x.yaml", []byte(text), k)), want, text)
	}
}
