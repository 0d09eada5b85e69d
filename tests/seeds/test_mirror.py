import socket
import threading

from seeds.mirror import _pass_through


def test_bytes_pass_both_ways_until_one_side_closes():
    client, client_side = socket.socketpair()
    server, server_side = socket.socketpair()
    tunnel = threading.Thread(target=_pass_through, args=(client_side, server_side))
    tunnel.start()
    client.sendall(b"question")
    assert server.recv(100) == b"question"
    server.sendall(b"answer")
    assert client.recv(100) == b"answer"
    client.close()
    tunnel.join(timeout=5)
    assert not tunnel.is_alive()
    for open_end in (client_side, server, server_side):
        open_end.close()
