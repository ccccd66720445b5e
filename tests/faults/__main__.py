"""What is still open in the fault book."""

from tests.faults import AREAS, OPEN, shown

tests = shown()
for area, rows in AREAS.items():
    for number, title in rows.items():
        if number not in tests:
            print(f"open  {number:3}  {title}  [{area}{', still open' if area in OPEN else ''}]")
