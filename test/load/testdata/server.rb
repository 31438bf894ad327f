# A server of Puma with the paths and the output of server.py: counts of requests, bodies and connections.
require "json"
require "puma"
require "puma/configuration"
require "puma/launcher"

host, port = ARGV
counts = Hash.new(0)
statuses = Hash.new(0)
peers = {}
lock = Mutex.new

# Parts is a body without a length: Puma sends it in chunks.
class Parts
  def each
    yield "hel"
    yield "l"
    yield "o"
  end
end

app = lambda do |env|
  peer = env["puma.socket"].peeraddr
  size = env["rack.input"].read.bytesize
  status = env["PATH_INFO"] == "/gone" ? 410 : 200
  lock.synchronize do
    counts[:requests] += 1
    counts[:body] += size
    statuses[status] += 1
    peers[peer] = true
  end
  [status, env["PATH_INFO"] == "/parts" ? {} : { "Content-Length" => "5" }, Parts.new]
end

config = Puma::Configuration.new do |c|
  c.bind "tcp://#{host}:#{port}"
  c.threads 4, 4
  c.app app
  c.raise_exception_on_sigterm false
end
Puma::Launcher.new(config, events: Puma::Events.null).run
puts JSON.generate(requests: counts[:requests], body: counts[:body], statuses: statuses, connections: peers.size)
