import recorder
from outpost import Outpost
from players import Captain

red, blue = Captain("red", 11), Captain("blue", 11)
game = recorder.record(Outpost(), "outpost.tape", step="turn")
while game.now < 600 and game.count("red") and game.count("blue"):
    game.turn(red.orders(game) + blue.orders(game))
game.close()
print(f"turn {game.now}: {game.count('red')} red, {game.count('blue')} blue")
