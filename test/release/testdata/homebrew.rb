# Evaluates a formula for a machine, and prints what Homebrew would download and install.
FORMULA, TARGET = ARGV
SYSTEM, ARCH = TARGET.split("/")

class Formula
  class << self
    def desc(_text) = nil
    def homepage(_url) = nil
    def license(_id) = nil
    def version(number) = puts("version #{number}")
    def url(address) = puts("url #{address}")
    def sha256(sum) = puts("sha256 #{sum}")
    def on_macos = SYSTEM == "darwin" ? yield : nil
    def on_linux = SYSTEM == "linux" ? yield : nil
    def on_arm = ARCH == "arm64" ? yield : nil
    def on_intel = ARCH == "amd64" ? yield : nil
    def test(&block) = block
  end

  # Place is a directory of the installation.
  class Place
    def /(name) = name
    def install(*names) = names.each { |name| puts "install #{name}" }
    def install_symlink(links) = links.each { |from, to| puts "link #{to} to #{from}" }
  end

  def bin = Place.new
  def pkgshare = Place.new
  def generate_completions_from_executable(program, _argument) = puts("completion of #{program}")
end

load FORMULA
Tare.new.install
